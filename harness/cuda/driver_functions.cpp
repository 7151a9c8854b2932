// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/driver_functions.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <stdexcept>

#include "harness/cuda/cuda_error.h"

namespace commfuse {
namespace {

constexpr unsigned int kVersion = 12000;  // selects the forms of CUDA 11.7 and later

template <class Function>
Function find(const char* name) {
  void* function = nullptr;
  auto found = cudaDriverEntryPointSymbolNotFound;
  CFB_CUDA(cudaGetDriverEntryPointByVersion(name, &function, kVersion, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess || function == nullptr) {
    throw std::runtime_error(fmt::format("the CUDA driver has no {}", name));
  }
  return reinterpret_cast<Function>(function);
}

}  // namespace

StreamValueFunctions find_stream_value_functions() {
  return {find<decltype(StreamValueFunctions::write)>("cuStreamWriteValue32"),
          find<decltype(StreamValueFunctions::wait)>("cuStreamWaitValue32")};
}

}  // namespace commfuse

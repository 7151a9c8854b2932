// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/driver_functions.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <stdexcept>

#include "harness/cuda/cuda_error.h"

namespace commfuse {
namespace {

constexpr unsigned int kVersion = 12000;  // selects the forms of CUDA 11.7 and later

/// Null where the driver has none.
template <class Function>
Function look_for(const char* name) {
  void* function = nullptr;
  auto found = cudaDriverEntryPointSymbolNotFound;
  CFB_CUDA(cudaGetDriverEntryPointByVersion(name, &function, kVersion, cudaEnableDefault, &found));
  return found == cudaDriverEntryPointSuccess ? reinterpret_cast<Function>(function) : nullptr;
}

template <class Function>
Function find(const char* name) {
  const auto function = look_for<Function>(name);
  if (function == nullptr) {
    throw std::runtime_error(fmt::format("the CUDA driver has no {}", name));
  }
  return function;
}

}  // namespace

StreamValueFunctions find_stream_value_functions() {
  return {find<decltype(StreamValueFunctions::write)>("cuStreamWriteValue32"),
          find<decltype(StreamValueFunctions::wait)>("cuStreamWaitValue32")};
}

std::optional<bool> has_multicast(int device) {
  const auto get_device = look_for<decltype(&cuDeviceGet)>("cuDeviceGet");
  const auto attribute = look_for<decltype(&cuDeviceGetAttribute)>("cuDeviceGetAttribute");
  CUdevice handle = 0;
  int value = 0;
  if (get_device == nullptr || attribute == nullptr ||
      get_device(&handle, device) != CUDA_SUCCESS ||
      attribute(&value, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, handle) != CUDA_SUCCESS) {
    return {};
  }
  return value != 0;
}

}  // namespace commfuse

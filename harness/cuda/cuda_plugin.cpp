// SPDX-License-Identifier: Apache-2.0
#include "harness/plugin.h"

#include "harness/cuda/cuda_backend.h"

extern "C" __attribute__((visibility("default"))) commfuse::Backend* commfuse_create_backend(
    std::uint32_t abi, commfuse::World& world, const commfuse::BackendSettings& settings) {
  if (abi != commfuse::kPluginAbi) return nullptr;
  return new commfuse::CudaBackend(world, settings);  // the caller owns it
}

// SPDX-License-Identifier: Apache-2.0
#include "harness/plugin.h"

#include "harness/cuda/cuda_backend.h"

extern "C" {

__attribute__((visibility("default"))) extern const std::uint32_t commfuse_plugin_abi;
const std::uint32_t commfuse_plugin_abi = commfuse::kPluginAbi;

__attribute__((visibility("default"))) commfuse::Backend* commfuse_create_backend(
    commfuse::World& world, const commfuse::BackendSettings& settings) {
  return new commfuse::CudaBackend(world, settings);
}

}  // extern "C"

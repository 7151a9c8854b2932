// SPDX-License-Identifier: Apache-2.0
// A backend plugin whose library fails at once, with the exit code that FAIL names: what is thrown
// in a plugin must keep its type in the program that opened it.
#include <cstdlib>

#include "harness/plugin.h"
#include "harness/world/library_error.h"

extern "C" {

__attribute__((visibility("default"))) extern const std::uint32_t commfuse_plugin_abi;
const std::uint32_t commfuse_plugin_abi = commfuse::kPluginAbi;

__attribute__((visibility("default"))) commfuse::Backend* commfuse_create_backend(
    commfuse::World& world, const commfuse::BackendSettings& /*settings*/) {
  const int code = std::atoi(std::getenv("FAIL"));
  throw commfuse::LibraryError(code, {.library = code == 2 ? "CUDA" : "NCCL",
                                      .code_name = "an error",
                                      .text = "it failed",
                                      .expression = "call()",
                                      .file = "file.cpp",
                                      .line = 1,
                                      .rank = world.rank()});
}

}  // extern "C"

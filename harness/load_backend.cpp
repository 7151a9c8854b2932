// SPDX-License-Identifier: Apache-2.0
#include "harness/load_backend.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "harness/plugin.h"
#include "harness/world/wire.h"

namespace commfuse {
namespace {

constexpr const char* kCudaPlugin = "commfuse_cuda.so";

PluginFactory* open_plugin() {
  const std::filesystem::path file =
      std::filesystem::read_symlink("/proc/self/exe").replace_filename(kCudaPlugin);
  if (!std::filesystem::exists(file)) {
    throw Unsupported(
        fmt::format("there is no {}; build with the CUDA Toolkit and NCCL (cmake --preset cuda "
                    "says what is missing)",
                    file.string()));
  }
  void* const plugin = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) throw Unsupported(dlerror());
  const auto* const abi = static_cast<const std::uint32_t*>(dlsym(plugin, kPluginAbiSymbol));
  void* const factory = dlsym(plugin, kPluginFactory);
  if (abi == nullptr || *abi != kPluginAbi || factory == nullptr) {
    throw Unsupported(fmt::format("{} belongs to another build of this program", file.string()));
  }
  return reinterpret_cast<PluginFactory*>(factory);
}

}  // namespace

void set_backend_environment(std::string_view backend) {
  if (backend != "cuda") return;
  // Streams share so many queues; with fewer, one that waits can hold up another.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  // Lanes have communicators of their own: their kernels must start in one order on every rank.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
}

std::unique_ptr<Backend> load_cuda_backend(World& world, const BackendSettings& settings) {
  // The plugin agrees among ranks by itself; opening it is what may fail on some of them.
  std::string missing;
  PluginFactory* factory = nullptr;
  try {
    factory = open_plugin();
  } catch (const Unsupported& error) {
    missing = fmt::format("--backend cuda on {}: {}", world.host(), error.what());
  }
  missing = first_text(world, missing);
  if (!missing.empty()) throw Unsupported(missing);
  return std::unique_ptr<Backend>(factory(world, settings));
}

}  // namespace commfuse

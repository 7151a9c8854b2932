// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/device.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "harness/cuda/cuda_error.h"
#include "harness/cuda/peer_memory.h"
#include "harness/executor.h"
#include "harness/world/wire.h"
#include "suite/error.h"

namespace commfuse {
namespace {

constexpr const char* kConnections = "CUDA_DEVICE_MAX_CONNECTIONS";
constexpr std::int32_t kDefaultConnections = 8;
constexpr std::int32_t kMostConnections = 32;

std::int32_t connections_in_force() {
  const char* text = std::getenv(kConnections);
  if (text == nullptr) return kDefaultConnections;
  const std::string_view value = text;
  std::int32_t count = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (error != std::errc{} || end != value.data() + value.size() || count < 1 ||
      count > kMostConnections) {
    throw UsageError(
        fmt::format("{} is '{}'; it must be 1 to {}", kConnections, value, kMostConnections));
  }
  return count;
}

/// Collective: the environments of ranks may differ, and a rank that left alone would be waited
/// for.
void require_connections(World& world) {
  std::string wrong;
  try {
    connections_in_force();
  } catch (const UsageError& error) {
    wrong = error.what();
  }
  wrong = first_text(world, wrong);
  if (!wrong.empty()) throw UsageError(wrong);
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

int attribute(cudaDeviceAttr name, int device) {
  int value = 0;
  CFB_CUDA(cudaDeviceGetAttribute(&value, name, device));
  return value;
}

/// This rank's place among those of its node, and how many there are.
struct Place {
  std::int32_t index = 0;
  std::int32_t count = 0;
};
Place place_on_node(World& world) {
  const auto hosts = all_gather(world, bytes_of(world.host()));
  Place place;
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    if (text_of(hosts[r]) != world.host()) continue;
    if (static_cast<std::int32_t>(r) < world.rank()) ++place.index;
    ++place.count;
  }
  return place;
}

/// The ranks of this node that have the same device, whatever number each sees it under.
std::int32_t ranks_with(World& world, const std::string& pci) {
  const std::string own = fmt::format("{} {}", world.host(), pci);
  std::int32_t count = 0;
  for (const auto& bytes : all_gather(world, bytes_of(own))) {
    if (text_of(bytes) == own) ++count;
  }
  return count;
}

/// What is missing where the devices cannot even be counted.
std::string why_no_device(cudaError_t error) {
  if (error != cudaErrorInsufficientDriver) return cudaGetErrorString(error);
  int driver = 0;
  int needed = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return "there is no NVIDIA driver";
  }
  cudaRuntimeGetVersion(&needed);
  return fmt::format("the NVIDIA driver is for CUDA {} and older, this program needs {}",
                     version_text(driver), version_text(needed));
}

}  // namespace

int require_devices(World& world) {
  require_connections(world);  // what the user got wrong comes before what the machine lacks
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);  // does not write its output where it fails
  std::string missing;
  if (error != cudaSuccess) {
    missing = fmt::format("--backend cuda on {}: {}", world.host(), why_no_device(error));
  } else if (count == 0) {
    missing = fmt::format("--backend cuda on {}: there is no device", world.host());
  }
  missing = first_text(world, missing);
  if (!missing.empty()) throw Unsupported(missing);
  return count;
}

std::string pci_of(int device) {
  std::array<char, 32> text{};
  CFB_CUDA(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device));
  return text.data();
}

Device select_device(World& world) {
  Device device;
  const Place place = place_on_node(world);
  const int count = require_devices(world);
  device.connections = connections_in_force();
  device.index = place.index % count;
  device.ranks_on_node = place.count;
  CFB_CUDA(cudaSetDevice(device.index));
  cudaDeviceProp properties{};
  CFB_CUDA(cudaGetDeviceProperties(&properties, device.index));
  device.name = properties.name;
  device.pci = pci_of(device.index);
  device.ranks_here = ranks_with(world, device.pci);
  device.sms = properties.multiProcessorCount;
  device.copy_engines = properties.asyncEngineCount;
  device.flushes_remote_writes = attribute(cudaDevAttrCanFlushRemoteWrites, device.index) != 0;
  CFB_CUDA(cudaDeviceGetStreamPriorityRange(&device.compute_priority, &device.transfer_priority));
  int version = 0;
  CFB_CUDA(cudaDriverGetVersion(&version));
  device.driver = version_text(version);
  CFB_CUDA(cudaRuntimeGetVersion(&version));
  device.runtime = version_text(version);
  return device;
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/device_places.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>

#include "harness/cuda/cuda_error.h"
#include "harness/cuda/peer_memory.h"
#include "harness/world/wire.h"

namespace commfuse {
namespace {

std::vector<std::string> texts_of_all(World& world, const std::string& own) {
  std::vector<std::string> texts;
  for (const auto& bytes : all_gather(world, bytes_of(own))) texts.push_back(text_of(bytes));
  return texts;
}

std::size_t first_equal(const std::vector<std::string>& texts, std::size_t rank) {
  return static_cast<std::size_t>(std::ranges::find(texts, texts[rank]) - texts.begin());
}

}  // namespace

bool DevicePlaces::speaks(std::int32_t rank) const {
  const auto index = static_cast<std::size_t>(rank);
  return first_equal(devices, index) == index;
}

std::int32_t DevicePlaces::lowest_of_node(std::int32_t rank) const {
  return static_cast<std::int32_t>(first_equal(hosts, static_cast<std::size_t>(rank)));
}

std::int32_t DevicePlaces::devices_of_node(std::int32_t rank) const {
  std::int32_t count = 0;
  for (std::size_t r = 0; r < devices.size(); ++r) {
    const auto other = static_cast<std::int32_t>(r);
    if (speaks(other) && lowest_of_node(other) == lowest_of_node(rank)) ++count;
  }
  return count;
}

bool DevicePlaces::shared() const {
  for (std::size_t r = 0; r < devices.size(); ++r) {
    if (!speaks(static_cast<std::int32_t>(r))) return true;
  }
  return false;
}

bool DevicePlaces::several_on_a_node() const {
  for (std::size_t r = 0; r < devices.size(); ++r) {
    if (devices_of_node(static_cast<std::int32_t>(r)) > 1) return true;
  }
  return false;
}

DevicePlaces find_places(World& world, const Device& device) {
  std::array<char, 32> bus{};
  CFB_CUDA(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device.index));
  return {texts_of_all(world, world.host()),
          texts_of_all(world, world.host() + " " + std::string(bus.data())),
          texts_of_all(world, device.name)};
}

}  // namespace commfuse

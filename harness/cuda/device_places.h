// SPDX-License-Identifier: Apache-2.0
// Which ranks of a launch sit on which devices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/cuda/device.h"
#include "harness/world/world.h"

namespace commfuse {

struct DevicePlaces {
  std::vector<std::string> hosts;    // by rank, as all that follow
  std::vector<std::string> devices;  // host and bus, so that equal means the same device
  std::vector<std::string> names;    // as datasheets name them

  /// The lowest rank of a device speaks for it.
  [[nodiscard]] bool speaks(std::int32_t rank) const;
  [[nodiscard]] std::int32_t lowest_of_node(std::int32_t rank) const;
  /// How many devices the node of a rank has in this launch.
  [[nodiscard]] std::int32_t devices_of_node(std::int32_t rank) const;
  /// Whether any two ranks sit on one device.
  [[nodiscard]] bool shared() const;
  [[nodiscard]] bool several_on_a_node() const;
};

/// Collective over the world.
DevicePlaces find_places(World& world, const Device& device);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// A machine on which nothing is wrong: two ranks, each a process on a device of its own, locked
// clocks. Tests change one fact of it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/cuda/machine_facts.h"

namespace commfuse::fake {

constexpr std::int64_t kFirstProcess = 101;
constexpr std::uint32_t kLimitedBySetting = 1;  // bit of kClockLimits

inline DeviceFacts healthy_device(std::string pci, int memory_node) {
  DeviceFacts device;
  device.pci = std::move(pci);
  device.name = "GPU";
  device.memory_bytes = std::int64_t{80} << 30;
  device.memory_node = memory_node;
  device.multicast = true;
  device.ecc = true;
  device.persistence = true;
  device.compute_mode = nvml::kDefault;
  device.links_active = 18;
  device.links_inactive = 0;
  device.fabric_state = nvml::kCompleted;
  device.clock_mhz = 1500;
  device.application_clock_mhz = 1500;
  device.default_application_clock_mhz = 1980;
  device.max_clock_mhz = 1980;
  device.limits = kLimitedBySetting;
  device.processes = std::vector<std::int64_t>{};
  return device;
}

inline std::vector<RankFacts> healthy_ranks() {
  std::vector<DeviceFacts> devices{healthy_device("0000:01:00.0", 0),
                                   healthy_device("0000:02:00.0", 1)};
  devices[0].processes = std::vector<std::int64_t>{kFirstProcess};
  devices[1].processes = std::vector<std::int64_t>{kFirstProcess + 1};
  std::vector<RankFacts> ranks(2);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    RankFacts& rank = ranks[i];
    rank.host = "node0";
    rank.process = kFirstProcess + static_cast<std::int64_t>(i);
    rank.device = devices[i].pci;
    rank.devices = devices;
    rank.processors = {0, 1, 2, 3};
    rank.near_processors = i == 0 ? std::vector<int>{0, 1} : std::vector<int>{2, 3};
    rank.network_cards = {{"mlx5_0", 0}, {"mlx5_1", 1}};
    rank.nccl = "2.28.9";
    rank.profiling_for_administrators = false;
  }
  return ranks;
}

}  // namespace commfuse::fake

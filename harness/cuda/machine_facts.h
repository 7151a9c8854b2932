// SPDX-License-Identifier: Apache-2.0
// What each rank sees of the machine under it, as values that are gathered on rank 0. What findings
// make of them: machine_findings.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/cuda/device_state.h"
#include "harness/world/world.h"

namespace commfuse {

/// A device that a rank can see; what is absent is not known.
struct DeviceFacts {
  std::string pci;
  std::string name;
  std::int64_t memory_bytes = 0;
  int memory_node = -1;           // NUMA; -1: not known
  std::optional<bool> multicast;  // NVLS: reductions and copies within the switch

  std::string not_shown;  // why NVML tells nothing of it; the rest is absent then
  std::optional<bool> ecc, persistence;
  std::optional<int> compute_mode;  // nvml::ComputeMode
  std::optional<int> links_active, links_inactive;
  std::optional<int> fabric_state;  // nvml::FabricState
  std::optional<double> clock_mhz, application_clock_mhz, default_application_clock_mhz,
      max_clock_mhz;
  std::optional<std::uint32_t> limits;  // bits of kClockLimits
  std::optional<std::vector<std::int64_t>> processes;
};

/// Adds what NVML shows.
void add_state(const DeviceState& state, DeviceFacts& facts);

struct RankFacts {
  std::string host;
  std::int64_t process = 0;
  std::string device;                                      // this rank's own, by its PCI address
  std::vector<DeviceFacts> devices;                        // all that it sees
  std::vector<std::pair<std::string, std::string>> apart;  // of those, pairs without peer access

  std::vector<int> processors;       // on which it may run
  std::vector<int> near_processors;  // of its device's memory node; empty: not known
  std::vector<std::pair<std::string, int>> network_cards;  // with their memory nodes

  std::string nccl;      // version
  bool profiled = true;  // whether a tracer was asked for
  bool traces = true;    // whether it started
  bool administrator = false;
  std::optional<bool> profiling_for_administrators;
};

/// Collective: by rank on rank 0, empty elsewhere.
std::vector<RankFacts> gather_facts(World& world, const RankFacts& own);

/// A device of a node, as the first rank that sees it describes it.
struct SeenDevice {
  std::string host;
  const DeviceFacts* facts = nullptr;
  std::vector<std::int64_t> processes;  // of this launch, whose ranks have it; none: it is unused

  [[nodiscard]] bool used() const { return !processes.empty(); }
};
/// Each once, in the order of ranks. The facts must outlive it.
std::vector<SeenDevice> seen_devices(std::span<const RankFacts> ranks);

}  // namespace commfuse

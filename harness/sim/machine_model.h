// SPDX-License-Identifier: Apache-2.0
// A machine that is not at hand: its network, and how fast a rank computes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/sim/compute_model.h"
#include "harness/sim/network.h"

namespace commfuse {

struct MachineModel {
  std::string name;  // as selected, for ids: "ideal:flops=700T,link=400GB/s,latency=3us"
  Network network;
  std::shared_ptr<const ComputeModel> compute;
  /// Of one rank by dtype, dense; shares of peak are of these. 0 where nobody says.
  std::array<double, kDTypes.size()> peak_flops_per_second{};
  std::string peak_name = "modelled peak";
  std::int32_t places = 0;                // for ranks; 0: any number
  std::vector<std::string> sources;       // of its numbers, for records
  std::vector<std::string> step_sources;  // of the network's step latencies
};

struct NamedMachine {
  std::string name;
  std::string description;
};
/// Those that are known by name, sorted.
std::vector<NamedMachine> named_machines();

/// A machine by its name, by its file (it ends in ".toml", see machine_file.h), or an ideal one.
/// Throws UsageError, listing the names where there is no such machine.
MachineModel find_machine(std::string_view text);

/// "ideal:flops=700T,link=400GB/s,latency=3us": all ops take their FLOPs at that rate, whatever
/// their shape; memory traffic is free; all ranks are on one node, and collectives are pairwise.
/// flops and link are required, latency is 0 unless given. Throws UsageError.
MachineModel ideal_machine(std::string_view text);

}  // namespace commfuse

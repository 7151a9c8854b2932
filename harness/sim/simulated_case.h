// SPDX-License-Identifier: Apache-2.0
// Groups of cases in simulated time: from what was selected to records. Prints nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/case.h"
#include "harness/record/record.h"
#include "harness/sim/event_graph.h"
#include "harness/sim/machine_model.h"

namespace commfuse {

/// Where cases run.
struct SimulatedMachine {
  MachineModel model;
  Protocol protocol = Protocol::put;
  std::size_t threads = 1;           // on which plans are made
  std::int64_t available_bytes = 0;  // cases that need more are skipped; 0: not known
};

/// "ideal:flops=700T,link=400GBps,latency=3us": the machine's name as ids have it, where a slash
/// begins the next segment.
std::string machine_in_ids(std::string_view name);

/// The network that a case with this link has: the machine's own, or one link of that speed for
/// each rank of a single node.
Network network_of(const MachineModel& model, const LinkRequest& link);

/// Of memory, for the schedule of the group that needs most; 0 if none runs.
std::int64_t needed_bytes(const CaseGroup& cases);
/// Why so many bytes are refused; empty if they are not. 0 available: not known.
std::string too_large_to_simulate(std::int64_t needed, std::int64_t available);

/// The records of the wanted rows. All rows are run first, since they are measured against each
/// other. Throws PlanError as simulate().
std::vector<Record> simulate_group(const CaseGroup& cases, const SimulatedMachine& machine);

}  // namespace commfuse

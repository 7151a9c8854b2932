// SPDX-License-Identifier: Apache-2.0
// One schedule on all ranks of a machine: plans are made, verified, added and dropped rank by rank.
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/mesh.h"
#include "harness/record/case_metrics.h"
#include "harness/sim/event_graph.h"
#include "harness/sim/machine_model.h"
#include "impls/implementation.h"
#include "impls/verify.h"

namespace commfuse {

struct SimulatedSetting {
  const Workload& workload;
  const Mesh& mesh;  // rank r of the mesh sits at place r; all of its groups run at once
  const MachineModel& machine;
  Protocol protocol = Protocol::put;
  std::size_t threads = 1;  // on which plans are made
};

struct SimulatedRun {
  RankSummaries run;    // by rank of the mesh
  RankSummaries quiet;  // the same plans without their communication
  PlanFacts facts;      // of the first rank
  std::uint64_t events = 0;
  double wall_s = 0;  // of the event engine alone

  [[nodiscard]] std::int64_t longest_window() const;  // in ns
};

/// The same result on any number of threads, where the compute model is as good as its word. Throws
/// PlanError for a fault of the plans, std::length_error for more events than can be counted.
SimulatedRun simulate(const SimulatedSetting& setting, const Implementation& implementation);

/// Bytes that this takes at the least, all ranks together, from the plan of one rank.
std::int64_t simulation_bytes(const Plan& plan, std::int64_t ranks);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// Runs one case group on this rank: build and verify plans, check, calibrate, sample, check again,
// and make records of it.
#pragma once

#include <string>
#include <vector>

#include "harness/backend.h"
#include "harness/case.h"
#include "harness/cost_recording.h"
#include "harness/fault.h"
#include "harness/record/record.h"
#include "harness/world/watchdog.h"
#include "harness/world/world.h"

namespace commfuse {

/// What all groups of a launch share.
struct Launch {
  const Options& options;
  Backend& backend;
  Watchdog& watchdog;
  nlohmann::ordered_json environment;  // rank 0
  double peak_flops = 0;               // per rank; 0 with --check-only
  std::int32_t usable_cores = 0;       // of this node, for all ranks together
  Fault fault;
  RankDevice device;               // of all ranks; without a name with --check-only
  CostRecording* costs = nullptr;  // where ops are recorded; not owned
};

/// Collective over `active`, the ranks of all of the group's meshes; `group` is this rank's own
/// part of it. The records of the wanted rows and of those that
/// are wrong, on rank 0 of `active`; empty elsewhere.
std::vector<Record> run_group(const CaseGroup& cases, World& active, World& group, Launch& launch);

}  // namespace commfuse

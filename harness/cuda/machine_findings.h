// SPDX-License-Identifier: Apache-2.0
// What the facts of all ranks mean: one line each, with the remedy where something should be
// mended, and what of a run's results that leaves to be trusted.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/backend.h"
#include "harness/cuda/machine_facts.h"

namespace commfuse {

struct Finding {
  SelfTestPart part;
  /// Why times are doubtful, in a few words; empty if they are not for this reason.
  std::string against_times{};
};

// How the machine is put together.
Finding devices_finding(std::span<const RankFacts> ranks);
Finding peer_access_finding(std::span<const RankFacts> ranks);
Finding links_finding(std::span<const RankFacts> ranks);
Finding multicast_finding(std::span<const RankFacts> ranks);

// How ranks are placed on it (rank_findings.cpp).
Finding visibility_finding(std::span<const RankFacts> ranks);
Finding affinity_finding(std::span<const RankFacts> ranks);
Finding nccl_finding(std::span<const RankFacts> ranks);
Finding profiling_finding(std::span<const RankFacts> ranks);

// What its devices are doing (usage_findings.cpp).
Finding clocks_finding(std::span<const RankFacts> ranks);
Finding limits_finding(std::span<const RankFacts> ranks);
Finding processes_finding(std::span<const RankFacts> ranks);
Finding compute_mode_finding(std::span<const RankFacts> ranks);

/// All of the above, and last what can and cannot be trusted.
std::vector<Finding> machine_findings(std::span<const RankFacts> ranks);
SelfTestPart trust_part(std::span<const Finding> findings);

/// "clocks: ..." for each finding that makes times doubtful; those that say the same share a line.
std::vector<std::string> lines_against_times(std::span<const Finding> findings);

}  // namespace commfuse

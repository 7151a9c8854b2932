// SPDX-License-Identifier: Apache-2.0
// Traced iterations of one plan on all ranks, as the part of a record that explains its samples.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/executor.h"
#include "harness/record/metrics.h"
#include "harness/world/world.h"

namespace commfuse {

/// One rank's traced iteration: what ranks send each other.
struct TracedSample {
  IterationSummary summary;
  std::int64_t start_ns = 0;  // by the clock of rank 0
  bool counts = false;
  bool by_copy_engine = false;
  std::int64_t unattributed = 0;
  std::int64_t uncertainty_ns = 0;
};

/// What record details say of it, from the samples of all ranks: by_rank[r][iteration]. An
/// iteration counts if it does on every rank; times are medians over those, of the maximum over
/// ranks, and of how far apart they started. `untraced_ns` is the median time of the samples.
nlohmann::ordered_json traced_details(std::span<const std::vector<TracedSample>> by_rank,
                                      const std::string& reason, double untraced_ns);

/// Collective over `active`; on its rank 0, and null where the executor traces nothing. Between
/// nodes it compares their clocks before and after; what is left unknown counts as uncertainty.
nlohmann::ordered_json trace_plan(World& active, Executor& executor, PlanHandle plan,
                                  double untraced_ns);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// --link auto:R: latency 0, and the bandwidth at which all collectives of a workload, one after the
// other, take R times compute_only.
#pragma once

#include <cstdint>
#include <span>

#include "harness/measure.h"

namespace commfuse {

/// What R is the ratio of.
struct LinkBounds {
  SampledPlan compute_only;
  SampledPlan comm_only;
  std::int64_t bytes_sent = 0;  // by one rank in comm_only; above 0
};

/// How far R as it was run, the median of comm_only / compute_only within repetitions, is above the
/// R asked for: 1 is right.
double ratio_error(std::span<const double> comm_only_ns, std::span<const double> compute_only_ns,
                   double ratio);

/// Collective over `active`: estimates from compute_only, then corrects by what both bounds take
/// when they are run in turn, since speeds differ between one run and the next.
LinkSpeed calibrate_link(World& active, Executor& executor, const LinkBounds& bounds, double ratio,
                         const SamplingRule& rule, Watchdog& watchdog);

}  // namespace commfuse

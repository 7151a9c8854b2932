// SPDX-License-Identifier: Apache-2.0
// The clocks of several nodes, laid on that of rank 0: by minimum round trips before and after what
// was timed, and a straight line between them (Cristian, "Probabilistic clock synchronization",
// 1989).
#pragma once

#include <cstdint>
#include <functional>

#include "harness/world/clock.h"
#include "harness/world/world.h"

namespace commfuse {

/// A comparison of this rank's clock with rank 0's, in ns.
struct ClockReading {
  std::int64_t local_ns = 0;        // when, by this rank's clock
  std::int64_t offset_ns = 0;       // what to add to it for rank 0's
  std::int64_t uncertainty_ns = 0;  // half the shortest round trip: the offset is not further off
};

/// Collective. Ranks of one node share its clock, so one of them is compared for all; those of rank
/// 0's node read an offset of 0, without uncertainty.
ClockReading compare_clocks(World& world, const std::function<std::int64_t()>& now = monotonic_ns);

/// Two comparisons, and times between them.
struct ClockAlignment {
  ClockReading before;
  ClockReading after;

  /// A time of this rank, by rank 0's clock: the offset drifts linearly.
  [[nodiscard]] std::int64_t on_root(std::int64_t local_ns) const;
  [[nodiscard]] std::int64_t uncertainty_ns() const;
  /// In parts per million of the time between the two comparisons.
  [[nodiscard]] double drift_ppm() const;
};

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// What a step of a collective costs, from collectives that were measured at several sizes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "harness/sim/cost_table.h"
#include "harness/sim/network.h"

namespace commfuse {

/// The usual model of a message (Hockney 1994) for each step: a collective in which each rank sends
/// `bytes` in `steps` (one to every other rank, twice that in an all_reduce) takes
/// steps * latency + bytes / rate.
struct CollectiveFit {
  LinkSpeed step;                // latency, and rate (0: no measurement took time for its bytes)
  double largest_deviation = 0;  // of a measurement from the model, as a share of the measurement
  std::size_t measurements = 0;
};

/// The least sum of squared relative deviations over all measurements of that kind; neither number
/// is below 0. Nothing where they cannot be told apart: that takes two different sizes of a block.
/// Throws UsageError where the measurements are of different transports.
std::optional<CollectiveFit> fit_collectives(CollectiveKind kind, const OpCosts& costs);

/// "all_gather fitted to 6 measurements: 12.3 us a step, 5.2 GB/s, at most 8 % off".
std::string describe(CollectiveKind kind, const CollectiveFit& fit);

}  // namespace commfuse

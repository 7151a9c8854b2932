// SPDX-License-Identifier: Apache-2.0
// Whether two samples come from one distribution, by ranks alone: Mann and Whitney 1947.
#pragma once

#include <span>

namespace commfuse {

/// The probability, if both were drawn from one distribution, of rank sums at least as far from
/// their mean as these are, on either side. Ties share their ranks. Exact, by counting all ways to
/// divide the values in two, for up to 60 values; beyond, by the normal distribution with
/// corrections for ties and continuity. 1 where a side is empty.
double rank_sum_probability(std::span<const double> a, std::span<const double> b);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// How sure a ratio of two medians is, by resampling: Efron 1979.
#pragma once

#include <cstdint>
#include <span>

namespace commfuse {

struct RatioInterval {
  double ratio = 1;  // median of b / median of a
  double low = 1, high = 1;
};

/// The interval that holds the share `confidence` of the ratios of 10,000 pairs of samples, drawn
/// with replacement from a and from b (percentile bootstrap). The same values give the same
/// interval. Throws std::invalid_argument where a side is empty or has a value that is not above 0.
RatioInterval ratio_interval(std::span<const double> a, std::span<const double> b,
                             double confidence);

}  // namespace commfuse

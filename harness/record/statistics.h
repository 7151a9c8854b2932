// SPDX-License-Identifier: Apache-2.0
// Statistics of samples. Percentiles interpolate linearly between order statistics (numpy's
// default, Hyndman and Fan type 7).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace commfuse {

/// Throws std::invalid_argument without samples.
double median(std::span<const double> samples);
/// Empty where there are fewer than 1 / (1 - q) samples, since nothing is known of that tail.
std::optional<double> percentile(std::span<const double> samples, double q);

struct Distribution {
  std::size_t count = 0;
  double min = 0, p50 = 0, max = 0, mean = 0;
  double cv = 0;  // standard deviation (n - 1) / mean; 0 for one sample
  std::optional<double> p90, p95, p99, p999;
  std::vector<std::size_t>
      outliers;  // indices beyond 3 scaled median absolute deviations above the median
};
Distribution distribution(std::span<const double> samples);

/// Half-width of a 95 % interval of the median from order statistics, over the median; the
/// sampler's stopping rule. Infinite for fewer than 6 samples: no interval of theirs is that sure.
double relative_half_width(std::span<const double> samples);

}  // namespace commfuse

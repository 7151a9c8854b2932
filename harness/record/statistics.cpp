// SPDX-License-Identifier: Apache-2.0
#include "harness/record/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace commfuse {
namespace {

/// Makes the median absolute deviation of normal data equal to its standard deviation.
constexpr double kNormalScale = 1.4826;
constexpr double kOutlierDeviations = 3;

std::vector<double> sorted(std::span<const double> samples) {
  std::vector<double> ordered(samples.begin(), samples.end());
  std::sort(ordered.begin(), ordered.end());
  return ordered;
}

double quantile(std::span<const double> ordered, double q) {
  const double position = q * static_cast<double>(ordered.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, ordered.size() - 1);
  return std::lerp(ordered[below], ordered[above], position - static_cast<double>(below));
}

bool tail_is_known(std::size_t count, double q) {
  constexpr double kRounding = 1e-9;  // 10 * (1 - 0.9) is a little under 1
  return static_cast<double>(count) * (1 - q) >= 1 - kRounding;
}

std::optional<double> known_quantile(std::span<const double> ordered, double q) {
  if (ordered.empty() || !tail_is_known(ordered.size(), q)) return std::nullopt;
  return quantile(ordered, q);
}

double coefficient_of_variation(std::span<const double> samples, double mean) {
  if (samples.size() < 2 || mean == 0) return 0;
  double squares = 0;
  for (const double sample : samples) squares += (sample - mean) * (sample - mean);
  return std::sqrt(squares / static_cast<double>(samples.size() - 1)) / mean;
}

std::vector<std::size_t> outliers_above(std::span<const double> samples, double centre) {
  std::vector<double> deviations;
  deviations.reserve(samples.size());
  for (const double sample : samples) deviations.push_back(std::abs(sample - centre));
  const double limit = centre + kOutlierDeviations * kNormalScale * median(deviations);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i] > limit) found.push_back(i);
  }
  return found;
}

/// Largest k so that the k-th smallest and the k-th largest of n samples enclose the median with at
/// least 95 %; 0 if even the extremes do not.
std::size_t order_statistic_of_95(std::size_t n) {
  constexpr double kEachSide = 0.025;
  constexpr std::size_t kExact = 1000;  // 2^-1000 is still a normal double
  if (n > kExact) {
    const double count = static_cast<double>(n);
    return static_cast<std::size_t>((count - 1.96 * std::sqrt(count)) / 2);
  }
  double probability = std::ldexp(1.0, -static_cast<int>(n));  // of i samples below the median
  double cumulated = 0;
  std::size_t k = 0;
  for (std::size_t i = 0; i <= n; ++i) {
    cumulated += probability;
    if (cumulated > kEachSide) break;
    ++k;
    probability *= static_cast<double>(n - i) / static_cast<double>(i + 1);
  }
  return k;
}

}  // namespace

double median(std::span<const double> samples) {
  if (samples.empty()) throw std::invalid_argument("the median of no samples");
  return quantile(sorted(samples), 0.5);
}

std::optional<double> percentile(std::span<const double> samples, double q) {
  return known_quantile(sorted(samples), q);
}

Distribution distribution(std::span<const double> samples) {
  Distribution result;
  result.count = samples.size();
  if (samples.empty()) return result;
  const std::vector<double> ordered = sorted(samples);
  result.min = ordered.front();
  result.max = ordered.back();
  result.p50 = quantile(ordered, 0.5);
  result.mean =
      std::accumulate(ordered.begin(), ordered.end(), 0.0) / static_cast<double>(ordered.size());
  result.cv = coefficient_of_variation(ordered, result.mean);
  result.p90 = known_quantile(ordered, 0.9);
  result.p95 = known_quantile(ordered, 0.95);
  result.p99 = known_quantile(ordered, 0.99);
  result.p999 = known_quantile(ordered, 0.999);
  result.outliers = outliers_above(samples, result.p50);
  return result;
}

double relative_half_width(std::span<const double> samples) {
  constexpr double kUnknown = std::numeric_limits<double>::infinity();
  const std::size_t k = order_statistic_of_95(samples.size());
  if (k == 0) return kUnknown;
  const std::vector<double> ordered = sorted(samples);
  const double half = (ordered[ordered.size() - k] - ordered[k - 1]) / 2;
  const double centre = quantile(ordered, 0.5);
  if (half == 0) return 0;
  return centre > 0 ? half / centre : kUnknown;
}

}  // namespace commfuse

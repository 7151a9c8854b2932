// SPDX-License-Identifier: Apache-2.0
#include "reports/ratio_interval.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

#include "harness/record/statistics.h"

namespace commfuse {
namespace {

constexpr std::size_t kDraws = 10'000;

double median_of_draw(std::span<const double> values, std::vector<double>& draw,
                      std::mt19937_64& random) {
  draw.resize(values.size());
  // Not uniform_int_distribution, which differs between standard libraries.
  for (double& value : draw) value = values[random() % values.size()];
  return median(draw);
}

}  // namespace

RatioInterval ratio_interval(std::span<const double> a, std::span<const double> b,
                             double confidence) {
  const auto above_zero = [](double value) { return value > 0; };
  if (a.empty() || b.empty() || !std::ranges::all_of(a, above_zero) ||
      !std::ranges::all_of(b, above_zero)) {
    throw std::invalid_argument("a ratio needs values above 0 on both sides");
  }
  std::mt19937_64 random(1);
  std::vector<double> draw, ratios(kDraws);
  for (double& ratio : ratios) {
    const double of_a = median_of_draw(a, draw, random);
    ratio = median_of_draw(b, draw, random) / of_a;
  }
  std::ranges::sort(ratios);
  const double outside = (1 - confidence) / 2 * static_cast<double>(kDraws);
  const auto cut = static_cast<std::size_t>(std::clamp(std::floor(outside), 0.0, kDraws / 2.0 - 1));
  return {median(b) / median(a), ratios[cut], ratios[kDraws - 1 - cut]};
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "reports/false_discovery.h"

#include <algorithm>
#include <numeric>

namespace commfuse {

std::vector<double> false_discovery_rates(std::span<const double> probabilities) {
  std::vector<std::size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, std::ranges::greater(), [&](std::size_t i) { return probabilities[i]; });
  std::vector<double> rates(probabilities.size());
  const auto n = static_cast<double>(probabilities.size());
  double least = 1;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double place = n - static_cast<double>(i);  // counted from the smallest
    least = std::min(least, probabilities[order[i]] * n / place);
    rates[order[i]] = least;
  }
  return rates;
}

}  // namespace commfuse

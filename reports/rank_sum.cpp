// SPDX-License-Identifier: Apache-2.0
#include "reports/rank_sum.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <numbers>
#include <numeric>
#include <vector>

namespace commfuse {
namespace {

constexpr std::size_t kMostExact = 60;  // values; the number of ways is then below 2^60

/// Twice the rank of each value among all, so that those of ties are whole numbers.
struct DoubledRanks {
  std::vector<std::int64_t> of_a, of_all;
  double ties = 0;  // the sum of t^3 - t over runs of t equal values
};

DoubledRanks doubled_ranks(std::span<const double> a, std::span<const double> b) {
  std::vector<double> sorted(a.begin(), a.end());
  sorted.insert(sorted.end(), b.begin(), b.end());
  std::ranges::sort(sorted);
  const auto twice_rank = [&](double value) {
    const auto [first, last] = std::ranges::equal_range(sorted, value);
    return (first - sorted.begin()) + (last - sorted.begin()) + 1;
  };
  DoubledRanks ranks;
  for (const double value : a) ranks.of_a.push_back(twice_rank(value));
  for (auto at = sorted.begin(); at != sorted.end();) {
    const auto end = std::upper_bound(at, sorted.end(), *at);
    const auto run = static_cast<double>(end - at);
    ranks.ties += run * run * run - run;
    ranks.of_all.insert(ranks.of_all.end(), static_cast<std::size_t>(end - at), twice_rank(*at));
    at = end;
  }
  return ranks;
}

/// ways[n][s]: how many choices of n of the ranks add up to s.
std::vector<std::vector<double>> ways_to_choose(const std::vector<std::int64_t>& ranks,
                                                std::size_t most) {
  const std::int64_t total = std::accumulate(ranks.begin(), ranks.end(), std::int64_t{0});
  std::vector ways(most + 1, std::vector<double>(static_cast<std::size_t>(total) + 1, 0.0));
  ways[0][0] = 1;
  for (const std::int64_t rank : ranks) {
    const auto step = static_cast<std::size_t>(rank);
    for (std::size_t n = most; n > 0; --n) {
      for (std::size_t sum = ways[n].size() - 1; sum >= step; --sum) {
        ways[n][sum] += ways[n - 1][sum - step];
      }
    }
  }
  return ways;
}

double exact_probability(const DoubledRanks& ranks, std::int64_t sum, std::int64_t twice_mean) {
  const std::size_t chosen = ranks.of_a.size();
  const std::vector<double> ways = ways_to_choose(ranks.of_all, chosen)[chosen];
  double all = 0;
  double as_far = 0;
  for (std::size_t s = 0; s < ways.size(); ++s) {
    all += ways[s];
    const std::int64_t away = std::abs(2 * static_cast<std::int64_t>(s) - twice_mean);
    if (away >= std::abs(2 * sum - twice_mean)) as_far += ways[s];
  }
  return as_far / all;
}

double normal_probability(const DoubledRanks& ranks, double away_from_mean, double a, double b) {
  const double n = a + b;
  const double variance = a * b / 12 * (n + 1 - ranks.ties / (n * (n - 1)));
  if (variance <= 0) return 1;
  const double z = std::max(0.0, away_from_mean - 0.5) / std::sqrt(variance);
  return std::erfc(z / std::numbers::sqrt2);
}

}  // namespace

double rank_sum_probability(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) return 1;
  const DoubledRanks ranks = doubled_ranks(a, b);
  const std::int64_t sum = std::accumulate(ranks.of_a.begin(), ranks.of_a.end(), std::int64_t{0});
  const std::size_t n = a.size() + b.size();
  // The mean of a's rank sum is |a| (n + 1) / 2; here of doubled ranks, doubled once more.
  const auto twice_mean = static_cast<std::int64_t>(2 * a.size() * (n + 1));
  if (n <= kMostExact) return exact_probability(ranks, sum, twice_mean);
  const double away = static_cast<double>(std::abs(2 * sum - twice_mean)) / 4;
  return normal_probability(ranks, away, static_cast<double>(a.size()),
                            static_cast<double>(b.size()));
}

}  // namespace commfuse

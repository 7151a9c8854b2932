// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/collective_fit.h"

#include <gtest/gtest.h>

#include <vector>

namespace commfuse {
namespace {

/// As a library with that latency and rate would take, off by a share of it in turn.
OpCosts measured(CollectiveKind kind, double latency_us, double gb_per_s,
                 const std::vector<std::int64_t>& ranks, const std::vector<std::int64_t>& bytes,
                 double noise = 0) {
  OpCosts costs;
  double sign = 1;
  for (const std::int64_t p : ranks) {
    for (const std::int64_t n : bytes) {
      const double steps = (kind == CollectiveKind::all_reduce ? 2.0 : 1.0) * double(p - 1);
      const double ns = 1000 * latency_us * steps + double(n) / gb_per_s;
      costs[{std::string(name_of(kind)), "mpi", {p, n, 0}}] = {ns * (1 + sign * noise), 10, 0};
      sign = -sign;
    }
  }
  return costs;
}

TEST(CollectiveFits, FindTheLatencyAndTheRateOfEveryKind) {
  for (const CollectiveKind kind : kCollectiveKinds) {
    const auto fit = fit_collectives(kind, measured(kind, 7, 3, {2, 5, 8}, {1 << 10, 1 << 24}));
    ASSERT_TRUE(fit.has_value());
    EXPECT_NEAR(fit->step.latency_seconds, 7e-6, 1e-12);
    EXPECT_NEAR(fit->step.bytes_per_second, 3e9, 1);
    EXPECT_NEAR(fit->largest_deviation, 0, 1e-9);
    EXPECT_EQ(fit->measurements, 6U);
  }
}

TEST(CollectiveFits, OfNoisyMeasurementsAreNearAndSayHowFar) {
  const auto kind = CollectiveKind::all_to_all;
  const auto fit =
      fit_collectives(kind, measured(kind, 10, 2, {2, 4}, {100, 10'000, 1 << 20, 1 << 26}, 0.05));
  ASSERT_TRUE(fit.has_value());
  EXPECT_NEAR(fit->step.latency_seconds, 10e-6, 1e-6);
  EXPECT_NEAR(fit->step.bytes_per_second, 2e9, 2e8);
  EXPECT_GT(fit->largest_deviation, 0.03);
  EXPECT_LT(fit->largest_deviation, 0.12);
}

TEST(CollectiveFits, OfBlocksOfOneSizeSayNothing) {
  const auto kind = CollectiveKind::all_gather;
  EXPECT_FALSE(fit_collectives(kind, {}));
  EXPECT_FALSE(fit_collectives(kind, measured(kind, 10, 2, {2}, {4096})));
  // Blocks of 4,096 bytes on 2 and on 5 ranks.
  OpCosts blocks = measured(kind, 10, 2, {2}, {4096});
  blocks.merge(measured(kind, 10, 2, {5}, {4 * 4096}));
  EXPECT_FALSE(fit_collectives(kind, blocks));
  EXPECT_FALSE(
      fit_collectives(CollectiveKind::all_reduce, measured(kind, 10, 2, {2, 3}, {10, 20'000'000})));
}

TEST(CollectiveFits, HaveNoNumberBelowZero) {
  const auto kind = CollectiveKind::reduce_scatter;
  const auto cost = [](std::int64_t bytes, double ns) {
    return std::pair<const OpKey, OpCost>{{"reduce_scatter", "mpi", {2, bytes, 0}}, {ns, 1, 0}};
  };
  // The larger one takes more than its share, and the other way round less time at all.
  const auto steep = fit_collectives(kind, {cost(1000, 1000), cost(2000, 4000)});
  ASSERT_TRUE(steep.has_value());
  EXPECT_EQ(steep->step.latency_seconds, 0);
  EXPECT_GT(steep->step.bytes_per_second, 0);
  const auto falling = fit_collectives(kind, {cost(1000, 4000), cost(200'000, 3000)});
  ASSERT_TRUE(falling.has_value());
  EXPECT_EQ(falling->step.bytes_per_second, 0);
  EXPECT_NEAR(falling->step.latency_seconds, 3.4e-6, 0.2e-6);
}

}  // namespace
}  // namespace commfuse

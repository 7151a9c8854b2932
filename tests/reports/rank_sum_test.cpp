// SPDX-License-Identifier: Apache-2.0
#include "reports/rank_sum.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace commfuse {
namespace {

using Values = std::vector<double>;

Values run_of(int first, int count) {
  Values values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), first);
  return values;
}

// Of C(10, 5) = 252 ways, and so on; numbers with fractions as scipy.stats.mannwhitneyu
// (method="exact") has them.
TEST(RankSum, IsExactForFewValues) {
  EXPECT_DOUBLE_EQ(rank_sum_probability(run_of(1, 5), run_of(6, 5)), 2.0 / 252);
  EXPECT_DOUBLE_EQ(rank_sum_probability(run_of(6, 5), run_of(1, 5)), 2.0 / 252);
  EXPECT_DOUBLE_EQ(rank_sum_probability(Values{1, 2, 3, 4, 6}, Values{5, 7, 8, 9, 10}), 4.0 / 252);
  EXPECT_DOUBLE_EQ(rank_sum_probability(Values{1, 2}, Values{3, 4}), 2.0 / 6);
  EXPECT_DOUBLE_EQ(rank_sum_probability(Values{2}, Values{1, 3}), 1);
}

TEST(RankSum, TiesShareTheirRanks) {
  EXPECT_DOUBLE_EQ(rank_sum_probability(Values{1, 1, 1}, Values{1, 1, 1}), 1);
  // Of 20 ways to choose 3 of the ranks 1, 2.5, 2.5, 4.5, 4.5, 6 the sums 6 and 15 are the
  // farthest, one way each... 1 + 2.5 + 2.5 = 6.
  EXPECT_DOUBLE_EQ(rank_sum_probability(Values{1, 2, 2}, Values{3, 3, 4}), 2.0 / 20);
}

TEST(RankSum, OfManyValuesIsNearTheExactOne) {
  // 30 and 30 values are counted, 31 and 31 are not; the same picture of both.
  const auto interleaved = [](int count, double shift) {
    Values values;
    for (int i = 0; i < count; ++i) values.push_back(i + shift);
    return values;
  };
  const double exact = rank_sum_probability(interleaved(30, 0), interleaved(30, 6.5));
  const double normal = rank_sum_probability(interleaved(31, 0), interleaved(31, 6.5));
  EXPECT_NEAR(exact, normal, 0.005);
  EXPECT_LT(exact, 0.05);
  EXPECT_GT(exact, 0.001);
  EXPECT_DOUBLE_EQ(rank_sum_probability(Values(40, 1.0), Values(40, 1.0)), 1);
}

TEST(RankSum, OfNothingSaysNothing) {
  EXPECT_DOUBLE_EQ(rank_sum_probability({}, Values{1, 2}), 1);
  EXPECT_DOUBLE_EQ(rank_sum_probability(Values{1, 2}, {}), 1);
}

}  // namespace
}  // namespace commfuse

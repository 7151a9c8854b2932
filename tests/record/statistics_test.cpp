// SPDX-License-Identifier: Apache-2.0
// Expected values by hand; those of percentiles agree with numpy.percentile.
#include "harness/record/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <stdexcept>

namespace commfuse {
namespace {

using Samples = std::vector<double>;

Samples one_to(std::size_t n) {
  Samples samples(n);
  std::iota(samples.begin(), samples.end(), 1.0);
  return samples;
}

TEST(Median, OfOddEvenAndOneSample) {
  EXPECT_EQ(median(Samples{3, 1, 2}), 2);
  EXPECT_EQ(median(Samples{4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median(Samples{7}), 7);
  EXPECT_THROW(median(Samples{}), std::invalid_argument);
}

TEST(Percentile, InterpolatesBetweenOrderStatistics) {
  EXPECT_DOUBLE_EQ(percentile(one_to(10), 0.9).value(), 9.1);
  EXPECT_DOUBLE_EQ(percentile(one_to(11), 0.9).value(), 10);
  EXPECT_DOUBLE_EQ(percentile(one_to(4), 0.25).value(), 1.75);
  EXPECT_DOUBLE_EQ(percentile(Samples{20, 10}, 0.5).value(), 15);
}

TEST(Percentile, case_B1_says_nothing_of_a_tail_without_samples) {
  EXPECT_FALSE(percentile(one_to(9), 0.9).has_value());
  EXPECT_TRUE(percentile(one_to(10), 0.9).has_value());
  EXPECT_FALSE(percentile(one_to(19), 0.95).has_value());
  EXPECT_TRUE(percentile(one_to(20), 0.95).has_value());
  EXPECT_FALSE(percentile(one_to(99), 0.99).has_value());
  EXPECT_TRUE(percentile(one_to(100), 0.99).has_value());
  EXPECT_FALSE(percentile(one_to(999), 0.999).has_value());
  EXPECT_TRUE(percentile(one_to(1000), 0.999).has_value());
  EXPECT_FALSE(percentile(Samples{}, 0).has_value());
}

TEST(Distribution, ByHand) {
  const Distribution d = distribution(Samples{4, 2, 8, 6});
  EXPECT_EQ(d.count, 4U);
  EXPECT_EQ(d.min, 2);
  EXPECT_EQ(d.p50, 5);
  EXPECT_EQ(d.max, 8);
  EXPECT_EQ(d.mean, 5);
  EXPECT_DOUBLE_EQ(d.cv, std::sqrt(20.0 / 3) / 5);
  EXPECT_FALSE(d.p90.has_value());
  EXPECT_TRUE(d.outliers.empty());
}

TEST(Distribution, OfNothingAndOfOne) {
  EXPECT_EQ(distribution(Samples{}).count, 0U);
  const Distribution d = distribution(Samples{5});
  EXPECT_EQ(d.cv, 0);
  EXPECT_EQ(d.p50, 5);
  EXPECT_TRUE(d.outliers.empty());
}

TEST(Distribution, case_B1_keeps_the_index_of_rare_slow_iterations) {
  Samples samples(200, 0.75);
  for (std::size_t i = 0; i < samples.size(); i += 2) samples[i] = 0.76;
  samples[41] = 42;
  samples[120] = 210;
  const Distribution d = distribution(samples);
  EXPECT_EQ(d.outliers, (std::vector<std::size_t>{41, 120}));
  EXPECT_EQ(d.max, 210);
  EXPECT_LT(d.p50, 0.77);
  EXPECT_TRUE(d.p99.has_value());
  EXPECT_FALSE(d.p999.has_value());
}

TEST(Distribution, OutliersLieThreeScaledDeviationsAboveTheMedian) {
  // Median 10, deviations {0, 1, 1, 2, 2, ...}: their median is 1, the limit 10 + 3 * 1.4826.
  EXPECT_TRUE(distribution(Samples{9, 10, 11, 10, 9, 11, 14.4}).outliers.empty());
  EXPECT_EQ(distribution(Samples{9, 10, 11, 10, 9, 11, 14.5}).outliers,
            (std::vector<std::size_t>{6}));
  EXPECT_TRUE(distribution(Samples{9, 10, 11, 10, 9, 11, 1}).outliers.empty());  // fast is no fault
}

TEST(RelativeHalfWidth, UsesTheTabledOrderStatistics) {
  // 95 % intervals of the median: n = 6 the extremes, n = 10 the 2nd and 9th, n = 20 the 6th and
  // 15th, n = 100 the 40th and 61st.
  EXPECT_DOUBLE_EQ(relative_half_width(one_to(6)), 2.5 / 3.5);
  EXPECT_DOUBLE_EQ(relative_half_width(one_to(10)), 3.5 / 5.5);
  EXPECT_DOUBLE_EQ(relative_half_width(one_to(20)), 4.5 / 10.5);
  EXPECT_DOUBLE_EQ(relative_half_width(one_to(100)), 10.5 / 50.5);
}

TEST(RelativeHalfWidth, IsContinuousWhereTheApproximationBegins) {
  EXPECT_NEAR(relative_half_width(one_to(1000)), relative_half_width(one_to(1001)), 0.003);
  EXPECT_NEAR(relative_half_width(one_to(100000)), 1.96 / std::sqrt(100000.0), 1e-4);
}

TEST(RelativeHalfWidth, IsInfiniteForTooFewSamples) {
  EXPECT_TRUE(std::isinf(relative_half_width(Samples{})));
  EXPECT_TRUE(std::isinf(relative_half_width(one_to(5))));
  EXPECT_EQ(relative_half_width(Samples(6, 3.0)), 0);
  EXPECT_EQ(relative_half_width(Samples(6, 0.0)), 0);
}

}  // namespace
}  // namespace commfuse

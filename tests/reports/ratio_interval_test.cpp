// SPDX-License-Identifier: Apache-2.0
#include "reports/ratio_interval.h"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>
#include <vector>

namespace commfuse {
namespace {

using Values = std::vector<double>;

TEST(RatioInterval, OfValuesThatAgreeIsAPoint) {
  const RatioInterval interval = ratio_interval(Values{4, 4, 4}, Values{5, 5, 5}, 0.99);
  EXPECT_DOUBLE_EQ(interval.ratio, 1.25);
  EXPECT_DOUBLE_EQ(interval.low, 1.25);
  EXPECT_DOUBLE_EQ(interval.high, 1.25);
}

TEST(RatioInterval, IsThatOfTheMediansAndTheSameEveryTime) {
  const Values a{10, 11, 12, 13, 100}, b{24, 20, 22, 21, 23};
  const RatioInterval interval = ratio_interval(a, b, 0.95);
  EXPECT_DOUBLE_EQ(interval.ratio, 22.0 / 12);
  EXPECT_LT(interval.low, interval.ratio);
  EXPECT_GT(interval.high, interval.ratio);
  EXPECT_EQ(ratio_interval(a, b, 0.95).low, interval.low);
  const RatioInterval surer = ratio_interval(a, b, 0.999);
  EXPECT_LE(surer.low, interval.low);
  EXPECT_GE(surer.high, interval.high);
}

TEST(RatioInterval, HoldsTheTrueRatioAboutAsOftenAsItSays) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> noise(100, 1);
  const auto sample = [&](double scale) {
    Values values(15);
    for (double& value : values) value = scale * noise(random);
    return values;
  };
  int held = 0;
  for (int turn = 0; turn < 100; ++turn) {
    const Values a = sample(1), b = sample(1.2);
    const RatioInterval interval = ratio_interval(a, b, 0.9);
    if (interval.low <= 1.2 && interval.high >= 1.2) ++held;
  }
  EXPECT_GE(held, 82);
  EXPECT_LE(held, 99);
}

TEST(RatioInterval, NeedsValuesAboveZero) {
  EXPECT_THROW(ratio_interval({}, Values{1}, 0.9), std::invalid_argument);
  EXPECT_THROW(ratio_interval(Values{1}, {}, 0.9), std::invalid_argument);
  EXPECT_THROW(ratio_interval(Values{0, 1}, Values{1}, 0.9), std::invalid_argument);
}

}  // namespace
}  // namespace commfuse

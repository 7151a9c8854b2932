// SPDX-License-Identifier: Apache-2.0
#include "reports/false_discovery.h"

#include <gtest/gtest.h>

#include <vector>

namespace commfuse {
namespace {

using Values = std::vector<double>;

TEST(FalseDiscovery, AdjustsEachByItsPlace) {
  const Values rates = false_discovery_rates(Values{0.01, 0.04, 0.03, 0.005});
  ASSERT_EQ(rates.size(), 4U);
  EXPECT_DOUBLE_EQ(rates[0], 0.02);
  EXPECT_DOUBLE_EQ(rates[1], 0.04);
  EXPECT_DOUBLE_EQ(rates[2], 0.04);
  EXPECT_DOUBLE_EQ(rates[3], 0.02);
}

TEST(FalseDiscovery, OfOneTestIsItsProbability) {
  EXPECT_EQ(false_discovery_rates(Values{0.2}), Values{0.2});
  EXPECT_TRUE(false_discovery_rates({}).empty());
}

TEST(FalseDiscovery, NeverExceedsOneAndKeepsTheOrder) {
  const Values rates = false_discovery_rates(Values{0.9, 1, 0.5, 0.001});
  EXPECT_DOUBLE_EQ(rates[1], 1);
  EXPECT_LE(rates[3], rates[2]);
  EXPECT_LE(rates[2], rates[0]);
  EXPECT_LE(rates[0], rates[1]);
}

}  // namespace
}  // namespace commfuse

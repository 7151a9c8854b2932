// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/number_format.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace commfuse::fake {
namespace {

float rounded(NumberFormat format, float value) {
  std::array<float, 2> array{};
  store(format, array.data(), 1, value);
  return load(format, array.data(), 1);
}

TEST(NumberFormat, RoundsToNearestEven) {
  EXPECT_EQ(rounded(NumberFormat::bf16, 257), 256);
  EXPECT_EQ(rounded(NumberFormat::bf16, 259), 260);
  EXPECT_EQ(rounded(NumberFormat::bf16, 257.01F), 258);
  EXPECT_EQ(rounded(NumberFormat::f16, 2049), 2048);
  EXPECT_EQ(rounded(NumberFormat::f16, 2051), 2052);
  EXPECT_EQ(rounded(NumberFormat::f32, 0.1F), 0.1F);
  EXPECT_EQ(round_to_tf32(2049), 2048);
  EXPECT_EQ(round_to_tf32(2051), 2052);
  EXPECT_EQ(round_to_tf32(2049.01F), 2050);
}

TEST(NumberFormat, KeepsWhatIsNoNumber) {
  for (const NumberFormat format : {NumberFormat::f32, NumberFormat::bf16, NumberFormat::f16}) {
    EXPECT_TRUE(std::isnan(rounded(format, NAN)));
    EXPECT_EQ(rounded(format, -INFINITY), -INFINITY);
  }
  EXPECT_TRUE(std::isnan(round_to_tf32(NAN)));
  EXPECT_EQ(rounded(NumberFormat::f16, 70000), INFINITY);
}

}  // namespace
}  // namespace commfuse::fake

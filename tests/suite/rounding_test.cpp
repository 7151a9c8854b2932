// SPDX-License-Identifier: Apache-2.0
#include "suite/rounding.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/suite/rounded_to.h"

namespace commfuse {
namespace {

std::vector<double> uniform(std::mt19937& random, std::size_t count, double sparsity) {
  std::uniform_real_distribution<double> value(-1, 1);
  std::bernoulli_distribution zero(sparsity);
  std::vector<double> values(count);
  for (double& v : values) v = zero(random) ? 0 : value(random);
  return values;
}

TEST(Norms, BoundProducts) {
  std::mt19937 random(3);
  for (const double sparsity : {0.0, 0.9}) {
    for (int trial = 0; trial < 100; ++trial) {
      const std::vector<double> a = uniform(random, 50, 0);
      const std::vector<double> b = uniform(random, 50, sparsity);
      double sum = 0;
      double squares = 0;
      for (std::size_t k = 0; k < a.size(); ++k) {
        sum += std::abs(a[k] * b[k]);
        squares += a[k] * b[k] * a[k] * b[k];
      }
      const Norms of_a = norms_of(std::span<const double>(a));
      const Norms of_b = norms_of(std::span<const double>(b));
      EXPECT_GE(absolute_products(of_a, of_b), sum);
      EXPECT_GE(root_of_squared_products(of_a, of_b), std::sqrt(squares));
    }
  }
}

TEST(Norms, AreTightForSparseWeights) {
  const std::vector<double> activations(4096, -1.0);
  std::vector<double> weights(4096, 0.0);
  for (std::size_t chunk = 0; chunk < 16; ++chunk) weights[chunk * 256 + 7] = 1;
  EXPECT_EQ(absolute_products(norms_of(std::span<const double>(activations)),
                              norms_of(std::span<const double>(weights))),
            16);
}

TEST(AccumulationError, HoldsForSequentialSums) {
  std::mt19937 random(5);
  for (const std::size_t terms : {10U, 100U, 10000U}) {
    for (int trial = 0; trial < 20; ++trial) {
      const std::vector<double> values = uniform(random, terms, 0);
      float computed = 0;
      double exact = 0;
      double absolute = 0;
      for (const double value : values) {
        const auto term = static_cast<float>(value);
        computed += term;
        exact += term;
        absolute += std::abs(term);
      }
      const double bound = accumulation_error(static_cast<std::int64_t>(terms)) * absolute;
      EXPECT_LE(std::abs(computed - exact), bound);
    }
  }
  EXPECT_EQ(accumulation_error(4), 4 * kUnitRoundoff32);  // short sums take the worst case
}

TEST(UnitRoundoff, IsHalfAStep) {
  EXPECT_EQ(unit_roundoff(DType::f32), kUnitRoundoff32);
  EXPECT_EQ(unit_roundoff(DType::bf16), 1.0 / 256);
  EXPECT_EQ(unit_roundoff(DType::f16), 1.0 / 2048);
}

/// Numbers from far below the dtype's normal range to above 1: one of the two bounds holds, and
/// each is reached somewhere.
TEST(UnitRoundoff, BoundsEveryStoreWithUnderflow) {
  std::mt19937 random(7);
  for (const DType dtype : kDTypes) {
    const double unit = unit_roundoff(dtype);
    const double underflow = underflow_error(dtype);
    std::uniform_real_distribution<double> exponent(std::log2(underflow) - 2, 4);
    double of_unit = 0;
    double of_underflow = 0;
    for (int trial = 0; trial < 100'000; ++trial) {
      const double value = std::exp2(exponent(random));
      const double error = std::abs(rounded_to(dtype, value) - value);
      ASSERT_LE(error, std::max(unit * value, underflow)) << name_of(dtype) << ' ' << value;
      if (unit * value < underflow) of_underflow = std::max(of_underflow, error / underflow);
      if (unit * value >= underflow) of_unit = std::max(of_unit, error / (unit * value));
    }
    EXPECT_GT(of_unit, 0.9) << name_of(dtype);
    EXPECT_GT(of_underflow, 0.9) << name_of(dtype);
  }
}

TEST(RoundedTo, GoesToTheNearestAndToEven) {
  EXPECT_EQ(rounded_to(DType::bf16, 257), 256);
  EXPECT_EQ(rounded_to(DType::bf16, 259), 260);
  EXPECT_EQ(rounded_to(DType::f16, 2049), 2048);
  EXPECT_EQ(rounded_to(DType::f16, -2051), -2052);
  EXPECT_EQ(rounded_to(DType::f16, 0x1p-25), 0);
  EXPECT_EQ(rounded_to(DType::f16, 0x1.8p-24), 0x1p-23);
  EXPECT_EQ(rounded_to(DType::f16, 65519), 65504);
  EXPECT_EQ(rounded_to(DType::f16, -65520), -INFINITY);
  EXPECT_EQ(rounded_to(DType::f32, 1 + 0x1p-24), 1);
}

}  // namespace
}  // namespace commfuse

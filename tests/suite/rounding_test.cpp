// SPDX-License-Identifier: Apache-2.0
#include "suite/rounding.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

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
}

}  // namespace
}  // namespace commfuse

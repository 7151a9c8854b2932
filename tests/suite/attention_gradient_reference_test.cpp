// SPDX-License-Identifier: Apache-2.0
#include "tests/suite/attention_gradient_reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace commfuse {
namespace {

constexpr double kStep = 1e-4;

AttentionGradientValues random_values(const AttentionGradient& op) {
  std::mt19937 engine(7);
  std::normal_distribution<double> normal;
  const auto of = [&](const View& view) {
    std::vector<double> values(static_cast<std::size_t>(view.elements()));
    for (double& value : values) value = normal(engine);
    return values;
  };
  return {
      .d_o = of(op.q), .q = of(op.q), .k = of(op.k), .v = of(op.v), .dk = of(op.k), .dv = of(op.k)};
}

/// The derivative of the loss by each element of one of the inputs, by central differences.
std::vector<double> differences(const AttentionGradient& op, const AttentionGradientValues& values,
                                std::vector<double> AttentionGradientValues::*input) {
  std::vector<double> slopes;
  for (std::size_t i = 0; i < (values.*input).size(); ++i) {
    const auto moved = [&](double by) {
      AttentionGradientValues copy = values;
      (copy.*input)[i] += by;
      return AttentionGradientReference(op, copy).loss();
    };
    slopes.push_back((moved(kStep) - moved(-kStep)) / (2 * kStep));
  }
  return slopes;
}

void expect_near(const std::vector<BoundedValue>& expected, const std::vector<double>& slopes) {
  ASSERT_EQ(expected.size(), slopes.size());
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    EXPECT_NEAR(expected[i].value, slopes[i], 1e-6) << i;
    EXPECT_LT(expected[i].bound, 1e-4);
  }
}

TEST(AttentionGradientReference, IsTheDerivativeByFiniteDifferences) {
  for (const Mask mask : {Mask::full, Mask::causal}) {
    AttentionGradient op;
    op.q = op.dq = op.d_o = {.row = 1, .rows = 2, .cols = 12, .strips = 2, .row_step = 3};
    op.k = op.v = op.dk = op.dv = {.tensor = 1, .rows = 7, .cols = 6};
    op.heads = 4;
    op.kv_heads = 2;
    op.head_dim = 3;
    op.mask = mask;
    ASSERT_EQ(misfit(op), "");
    const AttentionGradientValues values = random_values(op);
    const ExpectedGradient expected = AttentionGradientReference(op, values).gradient();
    expect_near(expected.dq, differences(op, values, &AttentionGradientValues::q));
    expect_near(expected.dk, differences(op, values, &AttentionGradientValues::k));
    expect_near(expected.dv, differences(op, values, &AttentionGradientValues::v));

    op.adds = true;
    const ExpectedGradient added = AttentionGradientReference(op, values).gradient();
    for (std::size_t i = 0; i < added.dk.size(); ++i) {
      EXPECT_DOUBLE_EQ(added.dk[i].value, expected.dk[i].value + values.dk[i]);
      EXPECT_DOUBLE_EQ(added.dv[i].value, expected.dv[i].value + values.dv[i]);
    }
  }
}

}  // namespace
}  // namespace commfuse

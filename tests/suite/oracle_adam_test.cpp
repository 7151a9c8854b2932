// SPDX-License-Identifier: Apache-2.0
// A step of Adam by the oracle: the numbers against the paper's algorithm in float64, the bounds
// against a plain fp32 loop on random data.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "suite/adam_factors.h"
#include "suite/oracle_linear.h"
#include "tests/suite/closeness.h"
#include "tests/suite/rounded_to.h"

namespace commfuse {
namespace {

struct PlainStep {
  double w, m, v;
};

/// Algorithm 1 with decoupled decay, as it is written.
PlainStep plain_step(double w, double m, double v, double g) {
  PlainStep next{};
  next.m = kAdamBeta1 * m + (1 - kAdamBeta1) * g;
  next.v = kAdamBeta2 * v + (1 - kAdamBeta2) * g * g;
  const double mean = next.m / (1 - std::pow(kAdamBeta1, kAdamStep));
  const double squares = next.v / (1 - std::pow(kAdamBeta2, kAdamStep));
  next.w = w - kAdamRate * (mean / (std::sqrt(squares) + kAdamEpsilon) + kAdamDecay * w);
  return next;
}

/// What a step reads.
struct StepInputs {
  Input w, m, v, g;
};

/// Weights lie below 1/32, as those of a layer of 1024 columns.
StepInputs random_inputs(DType dtype, bool off) {
  StepInputs in{random_input(20, 200, DType::f32, off, 1),
                random_input(20, 200, DType::f32, off, 2),
                random_input(20, 200, DType::f32, off, 3), random_input(20, 200, dtype, off, 4)};
  for (float& w : in.w.had) w /= 32;
  for (auto* numbers : {&in.w.known.value, &in.w.known.error, &in.w.known.scale}) {
    for (double& number : *numbers) number /= 32;
  }
  return in;
}

AdamRows expected_of(const StepInputs& in) {
  return adam(in.w.known, in.m.known, in.v.known, in.g.known);
}

struct Floats {
  std::vector<float> w, m, v;
};

Floats adam_in_fp32(const StepInputs& in) {
  Floats next;
  for (std::size_t i = 0; i < in.w.had.size(); ++i) {
    const float g = in.g.had[i];
    next.m.push_back(0.9F * in.m.had[i] + 0.1F * g);
    next.v.push_back(0.95F * std::abs(in.v.had[i]) + 0.05F * (g * g));
    const float mean = next.m.back() / static_cast<float>(1 - std::pow(0.9, 10));
    const float squares = next.v.back() / static_cast<float>(1 - std::pow(0.95, 10));
    next.w.push_back(in.w.had[i] -
                     1e-3F * (mean / (std::sqrt(squares) + 1e-8F) + 0.1F * in.w.had[i]));
  }
  return next;
}

TEST(Adam, IsThePapersStep) {
  const StepInputs in = random_inputs(DType::f32, false);
  const AdamRows next = expected_of(in);
  for (std::size_t i = 0; i < in.w.had.size(); ++i) {
    const PlainStep step = plain_step(in.w.known.value[i], in.m.known.value[i],
                                      std::abs(in.v.known.value[i]), in.g.known.value[i]);
    EXPECT_NEAR(next.w.value[i], step.w, 1e-15);
    EXPECT_NEAR(next.m.value[i], step.m, 1e-15);
    EXPECT_NEAR(next.v.value[i], step.v, 1e-15);
  }
}

TEST(Adam, FactorsOfExecutorsAreThoseOfTheStep) {
  EXPECT_NEAR(kAdamStepSize, kAdamRate / (1 - std::pow(kAdamBeta1, kAdamStep)), 1e-17);
  EXPECT_NEAR(kAdamUnbiased, 1 / (1 - std::pow(kAdamBeta2, kAdamStep)), 1e-14);
}

TEST(AdamBound, HoldsAndIsNotWide) {
  for_inputs([](DType dtype, bool off) {
    const StepInputs in = random_inputs(dtype, off);
    const AdamRows expected = expected_of(in);
    const Floats got = adam_in_fp32(in);
    const Closeness w = compare(expected.w, got.w, DType::f32);
    const Closeness m = compare(expected.m, got.m, DType::f32);
    const Closeness v = compare(expected.v, got.v, DType::f32);
    for (const Closeness& result : {w, m, v}) EXPECT_GT(result.worst, 0.02);
    if (off && is_narrow(dtype)) return;  // then it is the gradient that is off by far
    for (const Closeness& result : {w, m, v}) EXPECT_LT(result.width, 40);
  });
}

TEST(AdamBound, HoldsOfTheCopy) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const StepInputs in = random_inputs(dtype, false);
    const Closeness copy = compare(rounded(expected_of(in).w, dtype), adam_in_fp32(in).w, dtype);
    EXPECT_GT(copy.worst, 0.9);
    EXPECT_LT(copy.width, 1.1);
  }
}

/// A gradient whose sign is open where nothing else is known: the root has no slope at zero.
TEST(AdamBound, HoldsWhereTheGradientIsLostInItsError) {
  StepInputs in{
      random_input(1, 64, DType::f32, false, 5), random_input(1, 64, DType::f32, false, 6),
      random_input(1, 64, DType::f32, false, 7), random_input(1, 64, DType::f32, false, 8)};
  for (std::size_t i = 0; i < 64; ++i) {
    const double size = std::ldexp(1.0, -static_cast<int>(i % 32));
    in.v.known.value[i] = in.v.had[i] = static_cast<float>(i < 32 ? 0 : size * size / 16);
    in.g.had[i] *= static_cast<float>(size);
    in.g.known.value[i] = i % 2 == 0 ? 0 : -in.g.had[i];
    in.g.known.error[i] = in.g.known.scale[i] = 2 * std::abs(in.g.had[i]);
  }
  const AdamRows expected = expected_of(in);
  const Floats got = adam_in_fp32(in);
  compare(expected.w, got.w, DType::f32);
  compare(expected.m, got.m, DType::f32);
  compare(expected.v, got.v, DType::f32);
  for (const double error : expected.w.error) EXPECT_TRUE(std::isfinite(error));
}

/// The share of elements whose bound is smaller than what `change` to the inputs makes of them.
template <class Change>
double share_changed(const Rows& expected, const StepInputs& in, DType dtype, Change change) {
  StepInputs changed = in;
  change(changed);
  const Floats got = adam_in_fp32(changed);
  double seen = 0;
  for (std::size_t i = 0; i < got.w.size(); ++i) {
    const double stored = rounded_to(dtype, got.w[i]);
    seen += std::abs(stored - expected.value[i]) > expected.error[i] ? 1 : 0;
  }
  return seen / static_cast<double>(got.w.size());
}

TEST(AdamBound, IsTightEnoughToSeeAMissingGradientAndAMissingMean) {
  for (const DType dtype : kDTypes) {
    const StepInputs in = random_inputs(DType::f32, false);
    const Rows copy = rounded(expected_of(in).w, dtype);
    const auto without = [](Input StepInputs::*which) {
      return [which](StepInputs& all) {
        for (float& number : (all.*which).had) number = 0;
      };
    };
    EXPECT_EQ(share_changed(copy, in, dtype, [](StepInputs&) {}), 0);
    EXPECT_GT(share_changed(copy, in, dtype, without(&StepInputs::m)), 0.7) << name_of(dtype);
    EXPECT_GT(share_changed(copy, in, dtype, without(&StepInputs::g)), is_narrow(dtype) ? 0.1 : 0.7)
        << name_of(dtype);
  }
}

}  // namespace
}  // namespace commfuse

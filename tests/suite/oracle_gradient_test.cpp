// SPDX-License-Identifier: Apache-2.0
// Norms and gradients of the oracle: the formulas against differences in float64, the bounds
// against plain fp32 loops on random data.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "suite/oracle_linear.h"
#include "suite/rounding.h"
#include "tests/suite/closeness.h"
#include "tests/suite/rounded_to.h"

namespace commfuse {
namespace {

constexpr std::array kKinds{Activation::relu, Activation::gelu, Activation::swiglu};

// ---- the formulas ----

Rows random_rows(std::int32_t count, std::int32_t cols, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> any(-2, 2);
  Rows rows(count, cols);
  for (double& value : rows.value) value = any(random);
  return rows;
}

/// sum(dy * f(x)), whose gradient is what reaches x.
double dot(const Rows& dy, const Rows& y) {
  double sum = 0;
  for (std::size_t i = 0; i < y.value.size(); ++i) sum += dy.value[i] * y.value[i];
  return sum;
}

/// The gradient of `loss` at `at` by differences, compared with `gradient`.
void expect_gradient(const Rows& at, const Rows& gradient,
                     const std::function<double(const Rows&)>& loss) {
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < at.value.size(); ++i) {
    Rows above = at;
    Rows below = at;
    above.value[i] += kStep;
    below.value[i] -= kStep;
    const double slope = (loss(above) - loss(below)) / (2 * kStep);
    ASSERT_NEAR(gradient.value[i], slope, 1e-8) << i;
  }
}

Rows columns(const Rows& x, std::int32_t first, std::int32_t count) {
  Rows part(x.count, count);
  for (std::int32_t row = 0; row < x.count; ++row) {
    for (std::int32_t col = 0; col < count; ++col) {
      part.value[part.at(row, col)] = x.value[x.at(row, first + col)];
    }
  }
  return part;
}

Rows activated(const Rows& x, Activation kind, DType dtype) {
  if (kind != Activation::swiglu) return activate(x, kind, dtype);
  const std::int32_t half = x.cols / 2;
  return swiglu(columns(x, 0, half), columns(x, half, half), dtype);
}

TEST(GradientFormulas, OfActivationsMatchDifferences) {
  for (const Activation kind : kKinds) {
    const Rows x = random_rows(3, 10, 1);
    const Rows dy = random_rows(3, kind == Activation::swiglu ? 5 : 10, 2);
    expect_gradient(x, activation_gradient(dy, x, kind, DType::f32), [&](const Rows& changed) {
      return dot(dy, activated(changed, kind, DType::f32));
    });
  }
}

TEST(GradientFormulas, OfNormsMatchDifferences) {
  const Rows x = random_rows(3, 7, 3);
  const Rows gamma = random_rows(1, 7, 4);
  const Rows dy = random_rows(3, 7, 5);
  expect_gradient(x, norm_gradient(dy, x, gamma, DType::f32),
                  [&](const Rows& changed) { return dot(dy, norm(changed, gamma, DType::f32)); });
  expect_gradient(gamma, gamma_gradient(dy, x, 1, DType::f32),
                  [&](const Rows& changed) { return dot(dy, norm(x, changed, DType::f32)); });
}

TEST(GradientFormulas, OfNormsHoldWhereEpsilonCounts) {
  Rows x = random_rows(2, 6, 6);
  for (double& value : x.value) value *= 1e-3;
  const Rows gamma = random_rows(1, 6, 7);
  Rows dy = random_rows(2, 6, 8);
  for (double& value : dy.value) value *= 1e-3;  // slopes are some hundred times as large
  const Rows gradient = norm_gradient(dy, x, gamma, DType::f32);
  constexpr double kStep = 1e-7;
  for (std::size_t i = 0; i < x.value.size(); ++i) {
    Rows above = x;
    Rows below = x;
    above.value[i] += kStep;
    below.value[i] -= kStep;
    const double slope =
        (dot(dy, norm(above, gamma, DType::f32)) - dot(dy, norm(below, gamma, DType::f32))) /
        (2 * kStep);
    EXPECT_NEAR(gradient.value[i], slope, 1e-6 * std::abs(slope) + 1e-7);
  }
  EXPECT_NEAR(
      norm(x, gamma, DType::f32).value[0],
      x.value[0] * gamma.value[0] /
          std::sqrt((x.value[0] * x.value[0] + x.value[1] * x.value[1] + x.value[2] * x.value[2] +
                     x.value[3] * x.value[3] + x.value[4] * x.value[4] + x.value[5] * x.value[5]) /
                        6 +
                    1e-5),
      1e-12);
}

TEST(SideBySide, JoinsColumns) {
  const Rows left = random_rows(2, 3, 1);
  Rows right = random_rows(2, 2, 2);
  right.error[3] = 0.5;
  right.scale[3] = 0.25;
  const Rows both = side_by_side(left, right);
  EXPECT_EQ(both.value[both.at(1, 2)], left.value[5]);
  EXPECT_EQ(both.value[both.at(1, 4)], right.value[3]);
  EXPECT_EQ(both.error[both.at(1, 4)], 0.5);
  EXPECT_EQ(both.scale[both.at(1, 4)], 0.25);
}

// ---- the bounds ----

/// A narrow dtype shows its one rounding. fp32 shows its sums, whose bounds allow lambda times the
/// usual error: of rows of 500 columns about 180 units roundoff, and norms have two such sums.
void expect_close(const Closeness& result, DType dtype, bool off) {
  EXPECT_GT(result.worst, is_narrow(dtype) ? 0.3 : 0.02);
  EXPECT_LT(result.width, is_narrow(dtype) ? (off ? 25 : 2) : 400);
}

float slope_in_fp32(Activation kind, float x) {
  if (kind == Activation::relu) return x > 0 ? 1.0F : 0.0F;
  if (kind == Activation::gelu) {
    return 0.5F * std::erfc(-x * 0.70710678F) + x * 0.39894228F * std::exp(-0.5F * x * x);
  }
  const float sigmoid = 1 / (1 + std::exp(-x));
  return sigmoid * (1 + x * (1 - sigmoid));
}

std::vector<float> activation_gradient_in_fp32(const Input& dy, const Input& x, Activation kind) {
  std::vector<float> dx(x.had.size());
  const bool gated = kind == Activation::swiglu;
  for (std::int32_t row = 0; row < dy.known.count; ++row) {
    for (std::int32_t col = 0; col < dy.known.cols; ++col) {
      const std::size_t i = x.known.at(row, col);
      const std::size_t up = gated ? x.known.at(row, dy.known.cols + col) : 0;
      const float above = dy.had[dy.known.at(row, col)];
      dx[i] = above * (gated ? x.had[up] : 1.0F) * slope_in_fp32(kind, x.had[i]);
      if (gated) dx[up] = above * (x.had[i] / (1 + std::exp(-x.had[i])));
    }
  }
  return dx;
}

float rms_in_fp32(const Input& x, std::int32_t row) {
  float squares = 0;
  for (std::int32_t col = 0; col < x.known.cols; ++col) {
    const float value = x.had[x.known.at(row, col)];
    squares += value * value;
  }
  return std::sqrt(squares / static_cast<float>(x.known.cols) + static_cast<float>(kNormEpsilon));
}

std::vector<float> norm_in_fp32(const Input& x, const Input& gamma) {
  std::vector<float> y(x.had.size());
  for (std::int32_t row = 0; row < x.known.count; ++row) {
    const float rms = rms_in_fp32(x, row);
    for (std::int32_t col = 0; col < x.known.cols; ++col) {
      const std::size_t i = x.known.at(row, col);
      y[i] = x.had[i] / rms * gamma.had[static_cast<std::size_t>(col)];
    }
  }
  return y;
}

std::vector<float> norm_gradient_in_fp32(const Input& dy, const Input& x, const Input& gamma) {
  std::vector<float> dx(x.had.size());
  for (std::int32_t row = 0; row < x.known.count; ++row) {
    const float rms = rms_in_fp32(x, row);
    float sum = 0;
    for (std::int32_t col = 0; col < x.known.cols; ++col) {
      const std::size_t i = x.known.at(row, col);
      sum += dy.had[i] * gamma.had[static_cast<std::size_t>(col)] * x.had[i];
    }
    const float mean = sum / static_cast<float>(x.known.cols) / (rms * rms);
    for (std::int32_t col = 0; col < x.known.cols; ++col) {
      const std::size_t i = x.known.at(row, col);
      dx[i] = (dy.had[i] * gamma.had[static_cast<std::size_t>(col)] - x.had[i] * mean) / rms;
    }
  }
  return dx;
}

/// In `groups` equal runs of rows, each of which is added to what was stored so far.
std::vector<float> gamma_gradient_in_fp32(const Input& dy, const Input& x, std::int32_t groups,
                                          DType dtype) {
  std::vector<float> d(static_cast<std::size_t>(x.known.cols));
  const std::int32_t rows = x.known.count / groups;
  for (std::int32_t row = 0; row < x.known.count; ++row) {
    const float rms = rms_in_fp32(x, row);
    for (std::size_t col = 0; col < d.size(); ++col) {
      const std::size_t i = x.known.at(row, static_cast<std::int32_t>(col));
      d[col] += dy.had[i] * (x.had[i] / rms);
      if ((row + 1) % rows == 0) d[col] = static_cast<float>(rounded_to(dtype, d[col]));
    }
  }
  return d;
}

TEST(GradientBound, OfActivationsHoldsAndIsNotWide) {
  for_inputs([](DType dtype, bool off) {
    for (const Activation kind : {Activation::gelu, Activation::swiglu}) {
      const std::int32_t cols = kind == Activation::swiglu ? 200 : 400;
      const Input x = random_input(20, 400, dtype, off, 1);
      const Input dy = random_input(20, cols, dtype, off, 2);
      const Rows expected = activation_gradient(dy.known, x.known, kind, dtype);
      expect_close(compare(expected, activation_gradient_in_fp32(dy, x, kind), dtype), dtype, off);
    }
  });
}

TEST(GradientBound, OfReluIsZeroWhereInputsAreExact) {
  for_inputs([](DType dtype, bool off) {
    const Input x = random_input(10, 100, dtype, off, 3);
    const Input dy = random_input(10, 100, dtype, off, 4);
    const Rows expected = activation_gradient(dy.known, x.known, Activation::relu, dtype);
    compare(expected, activation_gradient_in_fp32(dy, x, Activation::relu), dtype);
    if (!off) {
      EXPECT_EQ(expected.error, std::vector<double>(1000, 0.0));
    }
  });
}

TEST(GradientBound, OfReluAllowsBothSlopesWhereTheSignIsOpen) {
  Rows x(1, 4);
  x.value = {0.5, 0.5, -0.5, 0};
  x.error = {0.25, 0.75, 0.75, 0};
  Rows dy(1, 4);
  dy.value = {2, 2, 2, 2};
  dy.error = dy.scale = {0.125, 0.125, 0.125, 0.125};
  const Rows dx = activation_gradient(dy, x, Activation::relu, DType::f32);
  EXPECT_EQ(dx.value, (std::vector<double>{2, 2, 0, 0}));
  EXPECT_EQ(dx.error, (std::vector<double>{0.125, 2.125, 2.125, 0}));
}

TEST(GradientBound, OfActivationsHoldsFarFromZero) {
  for (const Activation kind : {Activation::gelu, Activation::swiglu}) {
    const bool gated = kind == Activation::swiglu;
    constexpr std::int32_t kCount = 501;
    Input x{Rows(1, gated ? 2 * kCount : kCount), {}};
    Input dy{Rows(1, kCount), std::vector<float>(kCount, 1.0F)};
    dy.known.value.assign(kCount, 1.0);
    for (std::size_t i = 0; i < x.known.value.size(); ++i) {
      x.known.value[i] = -25.0 + static_cast<double>(i % kCount) / 10;
      x.had.push_back(static_cast<float>(x.known.value[i]));
      x.known.value[i] = x.had.back();
    }
    compare(activation_gradient(dy.known, x.known, kind, DType::f32),
            activation_gradient_in_fp32(dy, x, kind), DType::f32);
  }
}

TEST(ResidualBound, IsOfOneRounding) {
  for_inputs([](DType dtype, bool off) {
    const Input x = random_input(20, 200, dtype, off, 16);
    const Input r = random_input(20, 200, dtype, off, 17);
    std::vector<float> sum;
    for (std::size_t i = 0; i < x.had.size(); ++i) sum.push_back(x.had[i] + r.had[i]);
    const Closeness result = compare(residual(x.known, r.known, dtype), sum, dtype);
    EXPECT_GT(result.worst, 0.45);
    EXPECT_LT(result.width, off ? 8 : 2.1);
  });
}

TEST(NormBound, HoldsAndIsNotWide) {
  for_inputs([](DType dtype, bool off) {
    const Input x = random_input(20, 500, dtype, off, 5);
    const Input gamma = random_input(1, 500, dtype, false, 6);
    expect_close(compare(norm(x.known, gamma.known, dtype), norm_in_fp32(x, gamma), dtype), dtype,
                 off);
    const Input dy = random_input(20, 500, dtype, off, 7);
    expect_close(compare(norm_gradient(dy.known, x.known, gamma.known, dtype),
                         norm_gradient_in_fp32(dy, x, gamma), dtype),
                 dtype, off);
  });
}

TEST(NormBound, HoldsWhereErrorsAreAsLargeAsTheRow) {
  Input x = random_input(20, 40, DType::f32, false, 8);
  const Input gamma = random_input(1, 40, DType::f32, false, 9);
  std::mt19937 random(10);
  std::uniform_real_distribution<double> any(-1, 1);
  for (std::size_t i = 0; i < x.had.size(); ++i) {
    x.known.error[i] = x.known.scale[i] = 2;
    x.known.value[i] += 2 * any(random);
  }
  compare(norm(x.known, gamma.known, DType::f32), norm_in_fp32(x, gamma), DType::f32);
}

TEST(GammaGradientBound, HoldsAndIsNotWide) {
  for_inputs([](DType dtype, bool off) {
    const Input x = random_input(240, 100, dtype, off, 11);
    const Input dy = random_input(240, 100, dtype, off, 12);
    for (const std::int32_t groups : {1, 4}) {
      const Rows expected = gamma_gradient(dy.known, x.known, groups, dtype);
      const Closeness result =
          compare(expected, gamma_gradient_in_fp32(dy, x, groups, dtype), dtype);
      EXPECT_GT(result.worst, is_narrow(dtype) ? 0.04 : 0.002);
      // Terms of random sign are 12 times as large together as their sum.
      const double narrow = groups == 1 ? (off ? 110 : 2) : 160;
      EXPECT_LT(result.width, is_narrow(dtype) ? narrow : 2500) << groups;
    }
  });
}

/// Shares of the elements whose bound is smaller than what is left out.
double share_seen(const Rows& expected, const std::vector<double>& without) {
  double seen = 0;
  for (std::size_t i = 0; i < without.size(); ++i) {
    seen += std::abs(without[i] - expected.value[i]) > expected.error[i] ? 1 : 0;
  }
  return seen / static_cast<double>(without.size());
}

TEST(NormBound, IsTightEnoughToSeeAMissingMeanAndAMissingRow) {
  for (const DType dtype : kDTypes) {
    const Input x = random_input(16, 256, dtype, false, 13);
    const Input gamma = random_input(1, 256, dtype, false, 14);
    const Input dy = random_input(16, 256, dtype, false, 15);
    const Rows dx = norm_gradient(dy.known, x.known, gamma.known, dtype);
    std::vector<double> no_mean;
    for (std::int32_t row = 0; row < 16; ++row) {
      for (std::int32_t col = 0; col < 256; ++col) {
        no_mean.push_back(dy.known.value[dx.at(row, col)] *
                          gamma.known.value[static_cast<std::size_t>(col)] / rms_in_fp32(x, row));
      }
    }
    EXPECT_GT(share_seen(dx, no_mean), 0.7) << name_of(dtype);

    const std::int32_t cols = 256;
    const Rows d = gamma_gradient(dy.known, x.known, 4, dtype);
    std::vector<double> no_row;
    for (std::int32_t col = 0; col < cols; ++col) {
      const std::size_t i = x.known.at(7, col);
      no_row.push_back(d.value[static_cast<std::size_t>(col)] -
                       dy.known.value[i] * x.known.value[i] / rms_in_fp32(x, 7));
    }
    EXPECT_GT(share_seen(d, no_row), 0.4) << name_of(dtype);
  }
}

}  // namespace
}  // namespace commfuse

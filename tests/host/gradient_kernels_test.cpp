// SPDX-License-Identifier: Apache-2.0
// Norms and gradients on host storage, against the oracle's formulas and bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "harness/host/kernels.h"
#include "suite/oracle_linear.h"
#include "tests/host/tensor_set.h"
#include "tests/suite/rounded_to.h"

namespace commfuse {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr std::array kColumns{1, 7, 1500};  // fewer and more than a chunk, odd rests

/// The values of a view, free of error.
Rows rows_in(const TensorSet& set, const View& view) {
  Rows rows(static_cast<std::int32_t>(view.total_rows()), view.cols);
  std::ranges::copy(set.read(view), rows.value.begin());
  return rows;
}

/// A new tensor of random values with `strips` strips of two rows at odd offsets.
View inside(TensorSet& set, std::int32_t cols, DType dtype, std::int32_t strips = 3) {
  const TensorId id = set.add(5 * strips, cols + 4, dtype);
  set.fill_random(id, 17 + id);
  return {
      .tensor = id, .row = 1, .rows = 2, .col = 3, .cols = cols, .strips = strips, .row_step = 5};
}

View one_row(TensorSet& set, std::int32_t cols, DType dtype) {
  const TensorId id = set.add(3, cols + 2, dtype);
  set.fill_random(id, 17 + id);
  return {.tensor = id, .row = 1, .rows = 1, .col = 1, .cols = cols};
}

/// What the oracle expects of the op, from the values that its views have now.
Rows expected(const TensorSet& set, const ActivationGradient& op, DType dtype) {
  return activation_gradient(rows_in(set, op.dy), rows_in(set, op.x), op.kind, dtype);
}
Rows expected(const TensorSet& set, const Norm& op, DType dtype) {
  return norm(rows_in(set, op.x), rows_in(set, op.gamma), dtype);
}
Rows expected(const TensorSet& set, const NormGradient& op, DType dtype) {
  return norm_gradient(rows_in(set, op.dy), rows_in(set, op.x), rows_in(set, op.gamma), dtype);
}
Rows expected(const TensorSet& set, const GammaGradient& op, DType dtype) {
  Rows d = gamma_gradient(rows_in(set, op.dy), rows_in(set, op.x), 1, dtype);
  if (!op.adds) return d;
  const Rows before = rows_in(set, op.d);
  for (std::size_t i = 0; i < d.value.size(); ++i) {
    d.value[i] += before.value[i];
    d.error[i] += (0x1p-24 + (is_narrow(dtype) ? 0x1p-8 : 0)) * std::abs(before.value[i]);
  }
  return d;
}

/// Runs the op; what it writes is as the oracle has it, and nothing else has changed.
template <class Op>
void check(const TensorSet& set, const Op& op) {
  const View target = writes(op).front();
  const DType dtype = set.storage().tensor(target.tensor).dtype;
  const Rows wanted = expected(set, op, dtype);
  std::vector<float> all = set.read(set.all(target.tensor));
  HostKernels kernels;
  kernels.prepare(op, set.storage());
  kernels.run(op, set.storage());
  const std::vector<float> got = set.read(target);
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_LE(std::abs(got[i] - wanted.value[i]), wanted.error[i])
        << describe(target, set.storage().tensor(target.tensor)) << " element " << i << ": "
        << got[i] << " instead of " << wanted.value[i];
  }
  const std::int32_t width = set.storage().tensor(target.tensor).cols;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto row = static_cast<std::int32_t>(i) / target.cols;
    const std::int32_t strip = row / target.rows;
    const std::int32_t at = target.row + strip * target.row_step + row % target.rows;
    all[static_cast<std::size_t>(at * width + target.col +
                                 static_cast<std::int32_t>(i) % target.cols)] = got[i];
  }
  EXPECT_EQ(set.read(set.all(target.tensor)), all) << "something else was written";
}

std::int32_t width(Activation kind, std::int32_t cols) {
  return kind == Activation::swiglu ? 2 * cols : cols;
}

constexpr std::array kKinds{Activation::relu, Activation::gelu, Activation::swiglu};

TEST(ActivationGradientKernel, MatchesTheOracle) {
  for (const DType dtype : kDTypes) {
    for (const Activation kind : kKinds) {
      for (const std::int32_t cols : kColumns) {
        TensorSet set;
        const View dy = inside(set, cols, dtype);
        const View x = inside(set, width(kind, cols), dtype);
        check(set, ActivationGradient{inside(set, x.cols, dtype), dy, x, kind});
        if (kind != Activation::swiglu) {
          check(set, ActivationGradient{dy, dy, x, kind});
        } else {
          check(set, ActivationGradient{x, dy, x, kind});
        }
      }
    }
  }
}

/// dX of one row of x, with dY 2 and, for swiglu, up 3.
std::vector<float> gradient_at(Activation kind, const std::vector<float>& x) {
  TensorSet set;
  const auto cols = static_cast<std::int32_t>(x.size());
  const TensorId in = set.add(1, width(kind, cols));
  const TensorId above = set.add(1, cols);
  const TensorId out = set.add(1, width(kind, cols));
  std::vector<float> values = x;
  values.resize(static_cast<std::size_t>(width(kind, cols)), 3.0F);
  set.storage().write(set.all(in), values);
  set.storage().write(set.all(above), std::vector<float>(x.size(), 2.0F));
  HostKernels kernels;
  kernels.run(ActivationGradient{set.all(out), set.all(above), set.all(in), kind}, set.storage());
  return set.read(set.all(out));
}

TEST(ActivationGradientKernel, OfReluIsExactAndZeroAtZero) {
  EXPECT_EQ(gradient_at(Activation::relu, {-1.5F, -0.0F, 0.0F, 1e-30F, 2.5F}),
            (std::vector<float>{0, 0, 0, 2, 2}));
}

TEST(ActivationGradientKernel, HoldsFarFromZero) {
  EXPECT_EQ(gradient_at(Activation::gelu, {-100.0F, 100.0F}), (std::vector<float>{0, 2}));
  EXPECT_EQ(gradient_at(Activation::swiglu, {-200.0F, 200.0F}), (std::vector<float>{0, 6, 0, 400}));
}

TEST(ActivationGradientKernel, NaNInXOrAboveStaysNaN) {
  for (const Activation kind : kKinds) {
    EXPECT_TRUE(std::isnan(gradient_at(kind, {kNaN})[0]));
    for (const float x : {-1.0F, 1.0F}) {
      TensorSet set;
      const TensorId in = set.add(1, width(kind, 1));
      const TensorId above = set.add(1, 1);  // poison
      set.storage().write(set.all(in), std::vector<float>(width(kind, 1), x));
      HostKernels kernels;
      kernels.run(ActivationGradient{set.all(in), set.all(above), set.all(in), kind},
                  set.storage());
      EXPECT_TRUE(std::isnan(set.read(set.all(in))[0]));
    }
  }
}

TEST(NormKernel, MatchesTheOracle) {
  for (const DType dtype : kDTypes) {
    for (const std::int32_t cols : kColumns) {
      TensorSet set;
      const View x = inside(set, cols, dtype);
      const View gamma = one_row(set, cols, dtype);
      check(set, Norm{inside(set, cols, dtype), x, gamma});
      check(set, Norm{x, x, gamma});
    }
  }
}

TEST(NormGradientKernel, MatchesTheOracle) {
  for (const DType dtype : kDTypes) {
    for (const std::int32_t cols : kColumns) {
      for (const bool over_x : {false, true}) {
        TensorSet set;
        const View x = inside(set, cols, dtype);
        const View dy = inside(set, cols, dtype);
        const View gamma = one_row(set, cols, dtype);
        check(set, NormGradient{inside(set, cols, dtype), dy, x, gamma});
        check(set, NormGradient{over_x ? x : dy, dy, x, gamma});
      }
    }
  }
}

TEST(GammaGradientKernel, MatchesTheOracle) {
  for (const DType dtype : kDTypes) {
    for (const std::int32_t cols : kColumns) {
      for (const bool adds : {false, true}) {
        TensorSet set;
        check(set, GammaGradient{one_row(set, cols, dtype), inside(set, cols, dtype),
                                 inside(set, cols, dtype, 3), adds});
      }
    }
  }
}

TEST(GammaGradientKernel, DoesNotReadWhatItReplaces) {
  TensorSet set;
  const View d = set.all(set.add(1, 5));  // poison
  const View x = inside(set, 5, DType::f32);
  const View dy = inside(set, 5, DType::f32);
  HostKernels kernels;
  kernels.run(GammaGradient{d, dy, x, false}, set.storage());
  for (const float value : set.read(d)) EXPECT_FALSE(std::isnan(value));
}

/// A bf16 sum of 256 ones, stored after each row, would stay at 256 from then on.
TEST(GammaGradientKernel, AddsRowsInFp32AndRoundsOnce) {
  TensorSet set;
  const View dy = set.all(set.add(300, 4, DType::bf16));
  const View x = set.all(set.add(300, 4, DType::bf16));
  const View d = set.all(set.add(1, 4, DType::bf16));
  set.storage().write(dy, std::vector<float>(1200, 1.0F));
  set.storage().write(x, std::vector<float>(1200, 1024.0F));  // over its rms it is 1
  HostKernels kernels;
  kernels.run(GammaGradient{d, dy, x, false}, set.storage());
  EXPECT_EQ(set.read(d), std::vector<float>(4, 300.0F));
}

/// A row without a number reaches all of its own elements and no others.
TEST(NormKernels, NaNReachesItsRow) {
  TensorSet set;
  const TensorId x = set.add(2, 40);
  set.fill_random(x, 1);
  set.storage().write({.tensor = x, .rows = 1, .col = 7, .cols = 1}, std::vector<float>{kNaN});
  const View dy = set.all(set.add(2, 40));
  set.fill_random(dy.tensor, 2);
  const View gamma = set.all(set.add(1, 40));
  set.fill_random(gamma.tensor, 3);
  const View y = set.all(set.add(2, 40));
  HostKernels kernels;
  for (const Compute& op :
       {Compute{Norm{y, set.all(x), gamma}}, Compute{NormGradient{y, dy, set.all(x), gamma}}}) {
    kernels.run(op, set.storage());
    const std::vector<float> got = set.read(y);
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isnan(got[i]), i < 40);
  }
}

/// What is stored narrow is what fp32 tensors of the same numbers get, rounded.
TEST(NormKernels, RoundNarrowResultsOnce) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    std::array<std::vector<float>, 2> results;
    for (const bool narrow : {false, true}) {
      TensorSet set;
      const auto filled = [&](std::int32_t rows) {
        const TensorId id = set.add(rows, 1300, narrow ? dtype : DType::f32);
        set.fill_random(id, id);
        std::vector<float> values = set.read(set.all(id));
        for (float& value : values) value = static_cast<float>(rounded_to(dtype, value));
        set.storage().write(set.all(id), values);
        return set.all(id);
      };
      const View x = filled(3);
      const View dy = filled(3);
      const View gamma = filled(1);
      const View y = filled(3);
      const View d = filled(1);
      HostKernels kernels;
      for (const Compute& op : {Compute{Norm{y, x, gamma}}, Compute{NormGradient{y, dy, x, gamma}},
                                Compute{ActivationGradient{y, dy, x, Activation::gelu}},
                                Compute{GammaGradient{d, dy, x, true}}}) {
        kernels.run(op, set.storage());
        for (const float value : set.read(writes(op).front())) {
          results[narrow ? 1 : 0].push_back(narrow ? value
                                                   : static_cast<float>(rounded_to(dtype, value)));
        }
      }
    }
    EXPECT_EQ(results[0], results[1]) << name_of(dtype);
  }
}

TEST(NormKernels, ShapesAreChecked) {
  TensorSet set;
  const View x = set.all(set.add(4, 6));
  const View row = set.all(set.add(1, 6));
  HostKernels kernels;
  const auto refused = [&](const Compute& op) {
    EXPECT_THROW(kernels.prepare(op, set.storage()), std::invalid_argument);
  };
  EXPECT_NO_THROW(kernels.prepare(Norm{x, x, row}, set.storage()));
  refused(Norm{x, x, x});
  refused(Norm{row, x, row});
  refused(NormGradient{x, row, x, row});
  refused(GammaGradient{x, x, x, false});
  refused(ActivationGradient{x, row, x, Activation::relu});
}

}  // namespace
}  // namespace commfuse

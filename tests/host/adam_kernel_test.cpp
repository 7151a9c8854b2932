// SPDX-License-Identifier: Apache-2.0
// Steps of Adam on host storage, against the oracle's formulas and bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <vector>

#include "harness/host/kernels.h"
#include "suite/oracle_linear.h"
#include "tests/host/tensor_set.h"
#include "tests/suite/rounded_to.h"

namespace commfuse {
namespace {

/// A new tensor of random values with three strips of two rows at odd offsets.
View strips_of(TensorSet& set, std::int32_t cols, DType dtype = DType::f32) {
  const TensorId id = set.add(15, cols + 4, dtype);
  set.fill_random(id, 31 + id);
  return {.tensor = id, .row = 1, .rows = 2, .col = 3, .cols = cols, .strips = 3, .row_step = 5};
}

/// A step from new tensors into new ones, or over what it reads.
Adam step_of(TensorSet& set, std::int32_t cols, DType gradient, std::optional<DType> copy,
             bool in_place = false) {
  const View w = strips_of(set, cols);
  const View m = strips_of(set, cols);
  const View v = strips_of(set, cols);
  Adam op{.new_w = in_place ? w : strips_of(set, cols),
          .new_m = in_place ? m : strips_of(set, cols),
          .new_v = in_place ? v : strips_of(set, cols),
          .w = w,
          .m = m,
          .v = v,
          .g = strips_of(set, cols, gradient),
          .copy = {}};
  if (copy) op.copy = strips_of(set, cols, *copy);
  return op;
}

Rows packed_rows(const TensorSet& set, const View& view) {
  Rows rows(static_cast<std::int32_t>(view.total_rows()), view.cols);
  std::ranges::copy(set.read(view), rows.value.begin());
  return rows;
}

/// What a step writes, packed, one view after the other.
std::vector<float> all_written(const TensorSet& set, const Adam& op) {
  std::vector<float> all;
  for (const View& view : writes(op)) {
    const std::vector<float> values = set.read(view);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

void expect_within(const std::vector<float>& got, const Rows& wanted) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_LE(std::abs(got[i] - wanted.value[i]), wanted.error[i])
        << "element " << i << ": " << got[i] << " instead of " << wanted.value[i];
  }
}

/// Numbers of a tensor that lie outside the view.
std::vector<float> around(const TensorSet& set, const View& view) {
  std::vector<float> all = set.read(set.all(view.tensor));
  const std::int32_t width = set.storage().tensor(view.tensor).cols;
  for (std::int32_t row = 0; row < view.total_rows(); ++row) {
    const std::int32_t at = view.row + row / view.rows * view.row_step + row % view.rows;
    std::fill_n(all.begin() + at * width + view.col, view.cols, 0.0F);
  }
  return all;
}

TEST(AdamKernel, MatchesTheOracleAndWritesNothingElse) {
  for (const DType gradient : kDTypes) {
    for (const std::optional<DType> copy :
         {std::optional<DType>{}, std::optional{DType::f32}, std::optional{DType::bf16},
          std::optional{DType::f16}}) {
      for (const std::int32_t cols : {1, 7, 1500}) {  // fewer and more than a chunk, odd rests
        for (const bool in_place : {false, true}) {
          TensorSet set;
          const Adam op = step_of(set, cols, gradient, copy, in_place);
          const AdamRows wanted = adam(packed_rows(set, op.w), packed_rows(set, op.m),
                                       packed_rows(set, op.v), packed_rows(set, op.g));
          std::vector<std::vector<float>> before;
          for (const View& view : writes(op)) before.push_back(around(set, view));
          HostKernels kernels;
          kernels.prepare(op, set.storage());
          kernels.run(op, set.storage());
          expect_within(set.read(op.new_w), wanted.w);
          expect_within(set.read(op.new_m), wanted.m);
          expect_within(set.read(op.new_v), wanted.v);
          std::vector<std::vector<float>> after;
          for (const View& view : writes(op)) after.push_back(around(set, view));
          EXPECT_EQ(before, after);
          if (!copy) continue;
          std::vector<float> rounded_w = set.read(op.new_w);
          for (float& w : rounded_w) w = static_cast<float>(rounded_to(*copy, w));
          EXPECT_EQ(set.read(*op.copy), rounded_w);
        }
      }
    }
  }
}

TEST(AdamKernel, RepeatsBitForBitAndInPiecesToo) {
  TensorSet set;
  const Adam op = step_of(set, 1500, DType::bf16, DType::bf16);
  HostKernels kernels;
  kernels.run(op, set.storage());
  const std::vector<float> first = all_written(set, op);
  for (const View& view : writes(op)) set.fill_random(view.tensor, 3);
  kernels.run(op, set.storage());
  EXPECT_EQ(all_written(set, op), first);
  for (const View& view : writes(op)) set.fill_random(view.tensor, 4);
  for (const std::int32_t piece : {0, 1, 2}) {
    const auto columns = [&](std::int32_t col, std::int32_t cols) {
      const auto part = [&](const View& view) {
        View of_strip = view.strip(piece);
        of_strip.col += col;
        of_strip.cols = cols;
        return of_strip;
      };
      kernels.run(Adam{part(op.new_w), part(op.new_m), part(op.new_v), part(op.w), part(op.m),
                       part(op.v), part(op.g), part(*op.copy)},
                  set.storage());
    };
    columns(0, 701);
    columns(701, 799);
  }
  EXPECT_EQ(all_written(set, op), first);
}

/// What is no number reaches what is made of it and nothing else.
TEST(AdamKernel, NaNReachesWhatIsMadeOfIt) {
  struct Reach {
    View Adam::*from;
    bool w, m, v;
  };
  for (const Reach& reach :
       {Reach{&Adam::w, true, false, false}, Reach{&Adam::m, true, true, false},
        Reach{&Adam::v, true, false, true}, Reach{&Adam::g, true, true, true}}) {
    TensorSet set;
    const Adam op = step_of(set, 40, DType::f32, DType::bf16);
    View one = op.*reach.from;
    one.rows = one.strips = one.cols = 1;
    set.storage().write(one, std::vector<float>{std::numeric_limits<float>::quiet_NaN()});
    HostKernels kernels;
    kernels.run(op, set.storage());
    const auto expect_nan = [&](const View& view, bool first) {
      const std::vector<float> got = set.read(view);
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(std::isnan(got[i]), first && i == 0);
      }
    };
    expect_nan(op.new_w, reach.w);
    expect_nan(op.new_m, reach.m);
    expect_nan(op.new_v, reach.v);
    expect_nan(*op.copy, reach.w);
  }
}

TEST(AdamKernel, ShapesAndDtypesAreChecked) {
  TensorSet set;
  const Adam fits = step_of(set, 8, DType::bf16, DType::bf16);
  const View narrow = strips_of(set, 8, DType::bf16);
  HostKernels kernels;
  EXPECT_NO_THROW(kernels.prepare(fits, set.storage()));
  for (View Adam::*const view :
       {&Adam::new_w, &Adam::new_m, &Adam::new_v, &Adam::w, &Adam::m, &Adam::v}) {
    Adam op = fits;
    op.*view = narrow;
    EXPECT_THROW(kernels.prepare(op, set.storage()), std::invalid_argument);
  }
  Adam op = fits;
  op.g.cols = 7;
  EXPECT_THROW(kernels.prepare(op, set.storage()), std::invalid_argument);
}

}  // namespace
}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "suite/tensor.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>

#include "suite/error.h"

namespace commfuse {
namespace {

using Cells = std::set<std::pair<int, int>>;

Cells cells_of(const View& view) {
  Cells cells;
  for (std::int32_t s = 0; s < view.strips; ++s) {
    for (std::int32_t i = 0; i < view.rows; ++i) {
      for (std::int32_t j = 0; j < view.cols; ++j) {
        cells.emplace(view.row + s * view.row_step + i, view.col + s * view.col_step + j);
      }
    }
  }
  return cells;
}

bool share_a_cell(const View& a, const View& b) {
  const Cells of_b = cells_of(b);
  for (const auto& cell : cells_of(a)) {
    if (of_b.contains(cell)) return true;
  }
  return false;
}

/// Strips to the right, to the left, downwards, upwards or along a diagonal.
View random_view(std::mt19937& random) {
  const auto between = [&random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  View view{.tensor = 0,
            .row = between(8, 16),
            .rows = between(1, 3),
            .col = between(8, 16),
            .cols = between(1, 3),
            .strips = between(1, 3)};
  if (view.strips > 1) {
    view.row_step = between(-4, 4);
    view.col_step = between(-4, 4);
  }
  return view;
}

TEST(Overlap, AgreesWithElementSets) {
  std::mt19937 random(7);
  int overlapping = 0;
  constexpr int kTrials = 20000;
  for (int trial = 0; trial < kTrials; ++trial) {
    const View a = random_view(random);
    const View b = random_view(random);
    const Tensor tensor{"t", 64, 64, DType::f32};
    ASSERT_EQ(overlap(a, b), share_a_cell(a, b))
        << describe(a, tensor) << " and " << describe(b, tensor);
    ASSERT_EQ(overlap(a, b), overlap(b, a));
    overlapping += overlap(a, b) ? 1 : 0;
  }
  EXPECT_GT(overlapping, kTrials / 10);
  EXPECT_LT(overlapping, kTrials * 9 / 10);
}

TEST(Overlap, NeedsTheSameTensorAndElements) {
  const View a{.tensor = 1, .row = 0, .rows = 4, .col = 0, .cols = 4};
  View other = a;
  other.tensor = 2;
  EXPECT_TRUE(overlap(a, a));
  EXPECT_FALSE(overlap(a, other));
  View empty = a;
  empty.rows = 0;
  EXPECT_FALSE(overlap(a, empty));
}

TEST(Overlap, InterleavedStripsAreApart) {
  const View even{.row = 0, .rows = 2, .cols = 8, .strips = 100, .row_step = 4};
  View odd = even;
  odd.row = 2;
  EXPECT_FALSE(overlap(even, odd));
  odd.rows = 3;
  EXPECT_TRUE(overlap(even, odd));
}

TEST(Contiguous, IsOneUnbrokenRun) {
  const Tensor tensor{"t", 12, 6, DType::f32};
  EXPECT_TRUE(contiguous(whole(0, tensor), tensor));
  EXPECT_TRUE(contiguous(rows_of(0, tensor, 3, 4), tensor));
  EXPECT_TRUE(contiguous({.row = 2, .rows = 1, .col = 1, .cols = 3}, tensor));
  EXPECT_FALSE(contiguous({.row = 2, .rows = 2, .col = 1, .cols = 3}, tensor));
  EXPECT_TRUE(contiguous({.rows = 2, .cols = 6, .strips = 3, .row_step = 2}, tensor));
  EXPECT_FALSE(contiguous({.rows = 2, .cols = 6, .strips = 3, .row_step = 4}, tensor));
  EXPECT_TRUE(contiguous({.rows = 1, .cols = 2, .strips = 3, .col_step = 2}, tensor));
  EXPECT_FALSE(contiguous({.rows = 1, .cols = 2, .strips = 2, .col_step = 4}, tensor));
}

TEST(View, CountsElements) {
  const View view{.row = 1, .rows = 2, .cols = 5, .strips = 3, .row_step = 4};
  EXPECT_EQ(view.elements(), 30);
  EXPECT_EQ(view.total_rows(), 6);
  EXPECT_EQ(view.strip(2), (View{.row = 9, .rows = 2, .cols = 5}));
}

TEST(Describe, NamesTensorRowsColumnsAndStrips) {
  const Tensor tensor{"partial", 32, 16, DType::f32};
  EXPECT_EQ(describe(rows_of(0, tensor, 8, 4), tensor), "partial[8:12, :]");
  EXPECT_EQ(describe({.row = 8, .rows = 4, .col = 2, .cols = 3}, tensor), "partial[8:12, 2:5]");
  EXPECT_EQ(describe({.rows = 4, .cols = 16, .strips = 4, .row_step = 8}, tensor),
            "partial[0:4, :] x 4 every 8 rows");
  EXPECT_EQ(describe({.rows = 4, .cols = 4, .strips = 2, .col_step = 8}, tensor),
            "partial[0:4, 0:4] x 2 every 8 columns");
}

TEST(DType, NamesAndSizes) {
  for (const DType dtype : kDTypes) EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
  EXPECT_EQ(name_of(DType::f16), "fp16");
  for (const DType dtype : {DType::bf16, DType::f16}) {
    EXPECT_EQ((Tensor{"t", 3, 5, dtype}.bytes()), 30);
    EXPECT_TRUE(is_narrow(dtype));
  }
  EXPECT_FALSE(is_narrow(DType::f32));
  EXPECT_EQ((Tensor{"t", 1 << 20, 1 << 20, DType::f32}.bytes()), std::int64_t{1} << 42);
  try {
    parse_dtype("fp64");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "unknown dtype 'fp64'; valid: fp32, bf16, fp16");
  }
}

}  // namespace
}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/host/storage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "tests/host/tensor_set.h"

namespace commfuse {
namespace {

std::vector<float> counting(std::int64_t elements) {
  std::vector<float> values(static_cast<std::size_t>(elements));
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

/// Views of a 12 x 10 tensor: rectangles and strips of every layout.
std::vector<View> layouts(TensorId id) {
  return {
      {.tensor = id, .row = 0, .rows = 12, .col = 0, .cols = 10},
      {.tensor = id, .row = 3, .rows = 5, .col = 0, .cols = 10},
      {.tensor = id, .row = 3, .rows = 5, .col = 2, .cols = 7},
      {.tensor = id, .row = 1, .rows = 2, .col = 0, .cols = 10, .strips = 3, .row_step = 4},
      {.tensor = id, .row = 0, .rows = 3, .col = 0, .cols = 10, .strips = 4, .row_step = 3},
      {.tensor = id, .row = 1, .rows = 2, .col = 3, .cols = 4, .strips = 3, .row_step = 4},
      {.tensor = id, .row = 2, .rows = 6, .col = 1, .cols = 2, .strips = 3, .col_step = 3},
      {.tensor = id, .row = 0, .rows = 1, .col = 9, .cols = 1},
  };
}

std::int64_t element_of(const View& view, std::int64_t packed) {
  const std::int64_t strip = packed / (std::int64_t{view.rows} * view.cols);
  const std::int64_t row = packed / view.cols % view.rows;
  const std::int64_t col = packed % view.cols;
  return (view.row + strip * view.row_step + row) * 10 + view.col + strip * view.col_step + col;
}

TEST(Storage, ReadsViewsInPackedOrder) {
  for (const DType dtype : kDTypes) {
    TensorSet set;
    const TensorId id = set.add(12, 10, dtype);
    set.storage().write(set.all(id), counting(120));
    for (const View& view : layouts(id)) {
      const std::vector<float> packed = set.read(view);
      for (std::int64_t i = 0; i < view.elements(); ++i) {
        ASSERT_EQ(packed[static_cast<std::size_t>(i)], static_cast<float>(element_of(view, i)))
            << describe(view, set.storage().tensor(id)) << " element " << i;
      }
    }
  }
}

TEST(Storage, WritesAViewAndNothingElse) {
  for (const DType dtype : kDTypes) {
    for (const View& view : layouts(0)) {
      TensorSet set;
      const TensorId id = set.add(12, 10, dtype);
      set.storage().write(set.all(id), std::vector<float>(120, -1.0F));
      set.storage().write(view, counting(view.elements()));
      std::vector<float> expected(120, -1.0F);
      for (std::int64_t i = 0; i < view.elements(); ++i) {
        expected[static_cast<std::size_t>(element_of(view, i))] = static_cast<float>(i);
      }
      EXPECT_EQ(set.read(set.all(id)), expected) << describe(view, set.storage().tensor(id));
    }
  }
}

TEST(Storage, AddressesTheFirstElementOfAView) {
  TensorSet set;
  set.add(3, 4, DType::f32);
  const TensorId id = set.add(12, 10, DType::bf16);
  const Storage storage = set.storage();
  EXPECT_EQ(storage.at({.tensor = id, .row = 3, .rows = 1, .col = 4, .cols = 2}),
            storage.data(id) + (3 * 10 + 4) * 2);
}

TEST(Storage, PoisonIsNaNEverywhere) {
  for (const DType dtype : kDTypes) {
    TensorSet set;
    const TensorId id = set.add(5, 7, dtype);
    set.storage().write(set.all(id), counting(35));
    set.storage().poison(id);
    for (const float value : set.read(set.all(id))) EXPECT_TRUE(std::isnan(value));
  }
}

TEST(Storage, RefusesSizesThatDoNotMatch) {
  TensorSet set;
  const TensorId id = set.add(4, 4);
  std::vector<float> three(3);
  EXPECT_THROW(set.storage().write(set.all(id), three), std::invalid_argument);
  EXPECT_THROW(set.storage().read(set.all(id), three), std::invalid_argument);
  EXPECT_THROW(Storage({Tensor{}}, {}), std::invalid_argument);
}

TEST(CopyView, MovesPackedOrderBetweenAnyTwoLayouts) {
  for (const DType dtype : kDTypes) {
    for (const View& source : layouts(0)) {
      const auto elements = static_cast<std::int32_t>(source.elements());
      for (std::int32_t cols = 1; cols <= 10; ++cols) {
        if (elements % cols != 0 || elements / cols > 70) continue;
        TensorSet from;
        from.add(12, 10, dtype);
        from.storage().write(from.all(0), counting(120));
        TensorSet to;
        const TensorId id = to.add(70, 10, dtype);
        to.storage().write(to.all(id), std::vector<float>(700, -1.0F));
        const View target{.tensor = id, .rows = elements / cols, .cols = cols};
        copy_view(to.storage(), target, from.storage(), source);
        EXPECT_EQ(to.read(target), from.read(source)) << cols;
        const std::vector<float> all = to.read(to.all(id));
        EXPECT_EQ(std::count(all.begin(), all.end(), -1.0F), 700 - elements);
      }
    }
  }
}

TEST(CopyView, CopiesAViewOntoItself) {
  TensorSet set;
  const TensorId id = set.add(12, 10);
  set.storage().write(set.all(id), counting(120));
  copy_view(set.storage(), set.all(id), set.storage(), set.all(id));
  EXPECT_EQ(set.read(set.all(id)), counting(120));
}

TEST(CopyView, RefusesOtherSizesAndDtypes) {
  TensorSet set;
  set.add(4, 4);
  set.add(4, 5);
  set.add(4, 4, DType::bf16);
  const Storage storage = set.storage();
  EXPECT_THROW(copy_view(storage, set.all(0), storage, set.all(1)), std::invalid_argument);
  EXPECT_THROW(copy_view(storage, set.all(0), storage, set.all(2)), std::invalid_argument);
}

}  // namespace
}  // namespace commfuse

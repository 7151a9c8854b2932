// SPDX-License-Identifier: Apache-2.0
// The gradient of attention on host storage, against float64.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/host/kernels.h"
#include "tests/host/tensor_set.h"
#include "tests/suite/attention_gradient_reference.h"

namespace commfuse {
namespace {

struct GradientCase {
  std::int32_t tokens, heads, kv_heads, head_dim;
  Mask mask;
  DType dtype;
  DType sums;  // of dk and dv
};

std::string name_of_gradient(const testing::TestParamInfo<GradientCase>& info) {
  const GradientCase& c = info.param;
  return std::to_string(c.tokens) + "tokens_" + std::to_string(c.heads) + "on" +
         std::to_string(c.kv_heads) + "x" + std::to_string(c.head_dim) +
         (c.mask == Mask::causal ? "_causal_" : "_full_") + std::string(name_of(c.dtype)) +
         "_into_" + std::string(name_of(c.sums));
}

/// Every operand lies at odd offsets in a tensor of its own.
AttentionGradient make_gradient(TensorSet& set, const GradientCase& c) {
  const auto inside = [&](std::int32_t heads, DType dtype) {
    const TensorId id = set.add(c.tokens + 3, heads * c.head_dim + 2, dtype);
    return View{.tensor = id, .row = 0, .rows = c.tokens, .col = 1, .cols = heads * c.head_dim};
  };
  const auto random = [&](std::int32_t heads) {
    const View view = inside(heads, c.dtype);
    set.fill_random(view.tensor, 11 + view.tensor);
    return view;
  };
  return {.dq = inside(c.heads, c.dtype),
          .dk = inside(c.kv_heads, c.sums),
          .dv = inside(c.kv_heads, c.sums),
          .d_o = random(c.heads),
          .q = random(c.heads),
          .k = random(c.kv_heads),
          .v = random(c.kv_heads),
          .heads = c.heads,
          .kv_heads = c.kv_heads,
          .head_dim = c.head_dim,
          .mask = c.mask};
}

ExpectedGradient expected(const TensorSet& set, const AttentionGradient& op) {
  const auto packed = [&](const View& view) {
    const std::vector<float> values = set.read(view);
    return std::vector<double>(values.begin(), values.end());
  };
  return AttentionGradientReference(op, {.d_o = packed(op.d_o),
                                         .q = packed(op.q),
                                         .k = packed(op.k),
                                         .v = packed(op.v),
                                         .dk = packed(op.dk),
                                         .dv = packed(op.dv),
                                         .dtype = set.storage().tensor(op.q.tensor).dtype,
                                         .sums = set.storage().tensor(op.dk.tensor).dtype})
      .gradient();
}

void expect_near(const TensorSet& set, const View& view, const std::vector<BoundedValue>& wanted) {
  const std::vector<float> got = set.read(view);
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool near = std::abs(got[i] - wanted[i].value) <= wanted[i].bound;
    ASSERT_TRUE(near) << describe(view, set.storage().tensor(view.tensor)) << " element " << i
                      << ": " << got[i] << " instead of " << wanted[i].value << " +- "
                      << wanted[i].bound;
  }
}

/// Runs the op; the targets are near what the definition has, and what lies around them is as
/// before.
void check(const TensorSet& set, const AttentionGradient& op) {
  const ExpectedGradient wanted = expected(set, op);
  std::vector<std::vector<float>> before;
  for (const View& view : writes(op)) before.push_back(set.read(set.all(view.tensor)));
  HostKernels kernels;
  kernels.prepare(op, set.storage());
  kernels.run(op, set.storage());
  expect_near(set, op.dq, wanted.dq);
  expect_near(set, op.dk, wanted.dk);
  expect_near(set, op.dv, wanted.dv);
  std::size_t next = 0;
  for (const View& view : writes(op)) {
    const Storage storage = set.storage();
    const std::vector<float> after = set.read(view);
    const std::vector<float> all = set.read(set.all(view.tensor));
    storage.write(set.all(view.tensor), before[next++]);
    storage.write(view, after);
    const std::vector<float> rest = set.read(set.all(view.tensor));
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_TRUE(all[i] == rest[i] || (std::isnan(all[i]) && std::isnan(rest[i])))
          << "something else was written";
    }
  }
}

class AttentionGradientKernel : public testing::TestWithParam<GradientCase> {};

TEST_P(AttentionGradientKernel, WholeMatchesTheDefinition) {
  TensorSet set;
  check(set, make_gradient(set, GetParam()));
}

TEST_P(AttentionGradientKernel, TilesThatAddMatchTheDefinition) {
  const std::int32_t tokens = GetParam().tokens;
  const std::vector<View> tiles = {
      {.row = 0, .rows = 1},
      {.row = tokens - 1, .rows = 1},
      {.row = tokens / 3, .rows = tokens / 2},
      {.row = tokens / 6, .rows = tokens / 6, .strips = 3, .row_step = tokens / 4}};
  for (const View& tile : tiles) {
    if (tile.rows == 0 || tile.row + (tile.strips - 1) * tile.row_step + tile.rows > tokens)
      continue;
    TensorSet set;
    AttentionGradient op = make_gradient(set, GetParam());
    for (View* const view : {&op.dq, &op.d_o, &op.q}) {
      view->row = tile.row;
      view->rows = tile.rows;
      view->strips = tile.strips;
      view->row_step = tile.row_step;
    }
    op.adds = true;
    for (const View& view : {op.dk, op.dv}) set.fill_random(view.tensor, 40 + view.tensor);
    check(set, op);
  }
}

std::vector<GradientCase> gradient_cases() {
  std::vector<GradientCase> cases;
  for (const DType dtype : kDTypes) {
    for (const Mask mask : {Mask::full, Mask::causal}) {
      for (const std::int32_t tokens : {1, 2, 3, 14, 31}) {
        cases.push_back({tokens, 2, 2, 8, mask, dtype, dtype});
      }
      cases.push_back({34, 6, 2, 5, mask, dtype, DType::f32});  // groups of 3
      cases.push_back({70, 32, 1, 4, mask, dtype, dtype});      // one group, several blocks of rows
    }
    cases.push_back({600, 1, 1, 4, Mask::causal, dtype, DType::f32});  // blocks of each parity
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionGradientKernel, testing::ValuesIn(gradient_cases()),
                         name_of_gradient);

TEST(AttentionGradientTiles, AddUpToTheWhole) {
  constexpr std::int32_t kTokens = 24;
  for (const Mask mask : {Mask::full, Mask::causal}) {
    TensorSet set;
    AttentionGradient op = make_gradient(set, {kTokens, 4, 2, 6, mask, DType::f32, DType::f32});
    const ExpectedGradient whole = expected(set, op);
    HostKernels kernels;
    for (std::int32_t tile = 0; tile < 3; ++tile) {
      for (View* const view : {&op.dq, &op.d_o, &op.q}) {
        view->row = tile * kTokens / 3;
        view->rows = kTokens / 3;
      }
      op.adds = tile > 0;
      kernels.run(op, set.storage());
    }
    op.dq.row = 0;
    op.dq.rows = kTokens;
    expect_near(set, op.dq, whole.dq);
    expect_near(set, op.dk, whole.dk);
    expect_near(set, op.dv, whole.dv);
  }
}

TEST(AttentionGradientKernelShapes, AreChecked) {
  TensorSet set;
  const AttentionGradient good =
      make_gradient(set, {12, 4, 2, 3, Mask::causal, DType::f32, DType::f32});
  HostKernels kernels;
  const auto refused = [&](const std::function<void(AttentionGradient&)>& damage) {
    AttentionGradient op = good;
    damage(op);
    try {
      kernels.prepare(op, set.storage());
    } catch (const std::invalid_argument&) {
      return true;
    }
    return false;
  };
  EXPECT_FALSE(refused([](auto&) {}));
  EXPECT_TRUE(refused([](auto& op) { op.kv_heads = 3; }));
  EXPECT_TRUE(refused([](auto& op) { op.dq.rows = 11; }));
  EXPECT_TRUE(refused([](auto& op) { op.dv.rows = 11; }));
  const auto halve = [](View& view) {
    view.rows = 6;
    view.strips = 2;
    view.row_step = 7;
  };
  EXPECT_TRUE(refused([&](auto& op) { halve(op.k); }));
  EXPECT_TRUE(refused([&](auto& op) { halve(op.dk); }));
  const auto shorten = [](AttentionGradient& op) {  // queries beyond the keys' sequence
    op.k.rows = op.v.rows = op.dk.rows = op.dv.rows = 6;
  };
  EXPECT_TRUE(refused(shorten));
  EXPECT_FALSE(refused([&](auto& op) {
    shorten(op);
    op.mask = Mask::full;
  }));
}

}  // namespace
}  // namespace commfuse

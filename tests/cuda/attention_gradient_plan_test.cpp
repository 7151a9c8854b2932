// SPDX-License-Identifier: Apache-2.0
// The plan of the gradient of attention, run on the host by plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/cuda/attention.h"
#include "harness/cuda/attention_gradient.h"
#include "harness/cuda/matmul_key.h"
#include "tests/cuda/plan_runner.h"
#include "tests/suite/attention_gradient_reference.h"

namespace commfuse {
namespace {

void run_on_host(const SoftmaxGradientRows& all) {
  const SoftmaxRows& of = all.softmax;
  auto* const probabilities = static_cast<float*>(of.probabilities);
  auto* const results = static_cast<float*>(all.results);
  for (std::int64_t i = 0; i < std::int64_t{of.rows} * of.heads; ++i) {
    const std::int64_t row = i % of.rows;
    const auto for_columns = [&](auto act) {
      for (const ScorePart& part : of.parts) {
        for (std::int64_t j = 0; j < part.count; ++j) {
          act(i * of.pitch + part.column + j,
              part.begin + row * part.begin_step <= j && j < part.end + row * part.end_step);
        }
      }
    };
    double sum = 0;
    double along = 0;
    for_columns([&](std::int64_t at, bool seen) {
      if (!seen) return;
      sum += std::exp(double{of.scores[at]});
      along += std::exp(double{of.scores[at]}) * all.slopes[at];
    });
    for_columns([&](std::int64_t at, bool seen) {
      const double weight = seen ? std::exp(double{of.scores[at]}) / sum : 0;
      const double slope = seen ? weight * (all.slopes[at] - along / sum) * all.scale : 0;
      probabilities[at] = static_cast<float>(weight);
      results[at] = static_cast<float>(slope);
    });
  }
}

void copy_on_host(const GradientMove& move) {
  for (std::int64_t row = 0; row < move.target.rows; ++row) {
    std::copy_n(static_cast<const float*>(move.source.data) + row * move.source.pitch,
                move.target.cols, static_cast<float*>(move.target.data) + row * move.target.pitch);
  }
}

struct FreedBlocks {
  void operator()(std::byte* memory) const { std::free(memory); }
};

/// In a workspace of bytes that are NaN as numbers.
void run_on_host(const AttentionGradient& op, const DeviceStorage& storage) {
  const auto bytes =
      std::max<std::size_t>(256, static_cast<std::size_t>(workspace_bytes(op, storage)));
  const std::unique_ptr<std::byte, FreedBlocks> workspace(
      static_cast<std::byte*>(std::aligned_alloc(256, bytes)));
  std::fill_n(workspace.get(), bytes, std::byte{0xff});
  const AttentionGradientPlan plan = attention_gradient_plan(op, storage, workspace.get());
  std::fill_n(plan.zeros, plan.zero_bytes, std::byte{0});
  for (const GradientMove& zeros : plan.copies) copy_on_host(zeros);
  for (const AttentionGradientStep& step : plan.steps) {
    for (const Matmul& matmul : step.scores) run_on_host(matmul);
    run_on_host(step.softmax);
    for (const Matmul& matmul : step.products) run_on_host(matmul);
    EXPECT_FALSE(step.rounding);
  }
  EXPECT_TRUE(plan.sums.empty());
}

void expect_gradient(PlanTensors& tensors, const AttentionGradient& op) {
  ASSERT_EQ(misfit(op), "");
  const DeviceStorage storage = tensors.storage();
  ASSERT_EQ(unsupported_attention_gradient(op, storage), "");
  const auto packed = [&](const View& view) {
    std::vector<double> values;
    for (std::int64_t row = 0; row < view.total_rows(); ++row) {
      for (std::int64_t col = 0; col < view.cols; ++col) {
        values.push_back(tensors.at(view, row, col));
      }
    }
    return values;
  };
  const ExpectedGradient wanted = AttentionGradientReference(op, {.d_o = packed(op.d_o),
                                                                  .q = packed(op.q),
                                                                  .k = packed(op.k),
                                                                  .v = packed(op.v),
                                                                  .dk = packed(op.dk),
                                                                  .dv = packed(op.dv)})
                                      .gradient();
  run_on_host(op, storage);
  const auto compare = [&](const View& view, const std::vector<BoundedValue>& expected) {
    const std::vector<double> got = packed(view);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_LE(std::abs(got[i] - expected[i].value), expected[i].bound) << view.tensor << " " << i;
    }
  };
  compare(op.dq, wanted.dq);
  compare(op.dk, wanted.dk);
  compare(op.dv, wanted.dv);
}

TEST(AttentionGradientPlan, MatchesTheDefinition) {
  for (const Mask mask : {Mask::full, Mask::causal}) {
    for (const auto& [heads, kv_heads] :
         {std::pair(1, 1), {3, 3}, {4, 2}, {6, 3}, {6, 2}, {4, 1}}) {
      for (const std::int32_t tokens : {1, 6, 13}) {
        PlanTensors tensors;
        constexpr std::int32_t kHeadDim = 5;
        const auto inside = [&](std::int32_t count) {
          return View{.tensor = tensors.add_random(tokens + 2, count * kHeadDim + 3),
                      .row = 1,
                      .rows = tokens,
                      .col = 2,
                      .cols = count * kHeadDim};
        };
        const auto target = [&](std::int32_t count) {
          View view = inside(count);
          view.tensor = tensors.add(tokens + 2, count * kHeadDim + 3);
          return view;
        };
        AttentionGradient op{.dq = target(heads),
                             .dk = target(kv_heads),
                             .dv = target(kv_heads),
                             .d_o = inside(heads),
                             .q = inside(heads),
                             .k = inside(kv_heads),
                             .v = inside(kv_heads),
                             .heads = heads,
                             .kv_heads = kv_heads,
                             .head_dim = kHeadDim,
                             .mask = mask};
        op.q.row = op.d_o.row = op.dq.row = 0;
        expect_gradient(tensors, op);
        for (const View& view : writes(op)) {
          EXPECT_EQ(tensors.written(view.tensor), view.elements());
        }
        op.adds = true;
        expect_gradient(tensors, op);
      }
    }
  }
}

TEST(AttentionGradientPlan, OfStripsThatAreCutApartMatchesTheDefinition) {
  for (const Mask mask : {Mask::full, Mask::causal}) {
    PlanTensors tensors;
    const auto strips = [&](std::int32_t rows, std::int32_t count, std::int32_t step) {
      return View{.tensor = tensors.add_random(20, 8),
                  .row = 1,
                  .rows = rows,
                  .cols = 8,
                  .strips = count,
                  .row_step = step};
    };
    const auto keys = [&] { return tensors.all(tensors.add_random(17, 4)); };
    expect_gradient(tensors, {.dq = strips(6, 1, 0),
                              .dk = keys(),
                              .dv = keys(),
                              .d_o = strips(2, 3, 6),
                              .q = strips(3, 2, 8),
                              .k = keys(),
                              .v = keys(),
                              .heads = 4,
                              .kv_heads = 2,
                              .head_dim = 2,
                              .mask = mask});
  }
}

TEST(AttentionGradientPlan, OfSeveralBlocksMatchesTheDefinition) {
  for (const Mask mask : {Mask::full, Mask::causal}) {
    PlanTensors tensors;
    const std::int32_t tokens = mask == Mask::full ? 300 : 550;  // more than a block, per parity
    const auto matrix = [&] { return tensors.all(tensors.add_random(tokens, 1)); };
    const AttentionGradient op{.dq = matrix(),
                               .dk = matrix(),
                               .dv = matrix(),
                               .d_o = matrix(),
                               .q = matrix(),
                               .k = matrix(),
                               .v = matrix(),
                               .mask = mask};
    EXPECT_EQ(attention_gradient_plan(op, tensors.storage(), nullptr).steps.size(),
              mask == Mask::full ? 2U : 4U);
    expect_gradient(tensors, op);
  }
}

/// 64 rows of two heads; dk and dv in `sums`.
AttentionGradient of_dtypes(PlanTensors& tensors, DType dtype, DType sums, Mask mask) {
  const auto matrix = [&](DType of) { return tensors.all(tensors.add(64, 32, of)); };
  return {.dq = matrix(dtype),
          .dk = matrix(sums),
          .dv = matrix(sums),
          .d_o = matrix(dtype),
          .q = matrix(dtype),
          .k = matrix(dtype),
          .v = matrix(dtype),
          .heads = 2,
          .kv_heads = 2,
          .head_dim = 16,
          .mask = mask};
}

TEST(AttentionGradientPlan, SumsInFp32AndRoundsOnce) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const bool wide : {false, true}) {
      PlanTensors tensors;
      AttentionGradient op = of_dtypes(tensors, dtype, wide ? DType::f32 : dtype, Mask::causal);
      const DeviceStorage storage = tensors.storage();
      const AttentionGradientPlan plan = attention_gradient_plan(op, storage, nullptr);
      EXPECT_EQ(plan.sums.size(), wide ? 0U : 2U);
      EXPECT_EQ(plan.copies.size(), wide ? 2U : 0U);
      EXPECT_EQ(plan.zero_bytes, wide ? 512 : 2 * 64 * 32 * 4);
      ASSERT_EQ(plan.steps.size(), 2U);
      EXPECT_FALSE(plan.steps[0].rounding);  // even rows meet one range
      EXPECT_TRUE(plan.steps[1].rounding);
      for (const AttentionGradientStep& step : plan.steps) {
        for (const Matmul& product : step.products) {
          if (!product.transpose_a) continue;
          EXPECT_EQ(product.result, DType::f32);
          EXPECT_EQ(product.factors, dtype);
          EXPECT_EQ(product.c.data, product.d.data);
        }
      }
      op.adds = true;  // narrow sums begin at 0 all the same
      const AttentionGradientPlan adding = attention_gradient_plan(op, storage, nullptr);
      EXPECT_TRUE(adding.copies.empty());
      EXPECT_EQ(adding.zero_bytes, wide ? 0 : 2 * 64 * 32 * 4);
    }
  }
}

TEST(AttentionGradientPlan, PiecesOfTheWorkspaceAreApartAndAligned) {
  for (const Mask mask : {Mask::full, Mask::causal}) {
    PlanTensors tensors;
    const AttentionGradient op = of_dtypes(tensors, DType::bf16, DType::bf16, mask);
    const DeviceStorage storage = tensors.storage();
    auto* const base = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 20);
    const AttentionGradientPlan plan = attention_gradient_plan(op, storage, base);
    for (const AttentionGradientStep& step : plan.steps) {
      const SoftmaxRows& of = step.softmax.softmax;
      const std::int64_t scores = std::int64_t{of.rows} * of.heads * of.pitch;
      std::vector<std::pair<const std::byte*, std::int64_t>> pieces{
          {plan.zeros, plan.zero_bytes},
          {reinterpret_cast<const std::byte*>(of.scores), scores * 4},
          {reinterpret_cast<const std::byte*>(step.softmax.slopes), scores * 4},
          {static_cast<const std::byte*>(of.probabilities), scores * 2},
          {static_cast<const std::byte*>(step.softmax.results), scores * 2}};
      if (step.rounding) {
        pieces.emplace_back(static_cast<const std::byte*>(step.rounding->source.data),
                            step.rounding->source.elements() * 4);
      }
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        const std::byte* const end =
            i + 1 < pieces.size() ? pieces[i + 1].first : base + workspace_bytes(op, storage);
        EXPECT_LE(pieces[i].first + pieces[i].second, end) << i;
      }
      for (const Matmul& matmul : step.scores) EXPECT_EQ(key_of(matmul).d.alignment, 256U);
      for (const Matmul& matmul : step.products) EXPECT_EQ(key_of(matmul).a.alignment, 256U);
    }
  }
}

TEST(AttentionGradientPlan, TakesNoMoreRoomForScoresThanAttention) {
  PlanTensors tensors;
  const auto matrix = [&](DType dtype) { return tensors.all(tensors.add(2048, 64, dtype)); };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const View q = matrix(dtype);
    const View sums = matrix(DType::f32);
    const AttentionGradient op{.dq = matrix(dtype),
                               .dk = sums,
                               .dv = sums,
                               .d_o = q,
                               .q = q,
                               .k = q,
                               .v = q,
                               .heads = 4,
                               .kv_heads = 4,
                               .head_dim = 16,
                               .mask = Mask::full,
                               .adds = true};
    const Attention forward{
        .o = matrix(dtype), .q = q, .k = q, .v = q, .heads = 4, .kv_heads = 4, .head_dim = 16};
    EXPECT_EQ(workspace_bytes(op, tensors.storage()), workspace_bytes(forward, tensors.storage()));
  }
}

TEST(AttentionGradientPlan, NamesWhatItCannotServe) {
  PlanTensors tensors;
  const AttentionGradient op = of_dtypes(tensors, DType::bf16, DType::f32, Mask::causal);
  EXPECT_EQ(unsupported_attention_gradient(op, tensors.storage()), "");
  AttentionGradient mixed = op;
  mixed.v = tensors.all(tensors.add(64, 32, DType::f32));
  EXPECT_EQ(unsupported_attention_gradient(mixed, tensors.storage()), "q bf16 and t7 fp32");
  mixed = op;
  mixed.dk = tensors.all(tensors.add(64, 32, DType::f16));
  EXPECT_EQ(unsupported_attention_gradient(mixed, tensors.storage()), "q bf16 and t8 fp16");
  AttentionGradient cut = op;
  cut.dk.rows = 32;
  cut.dk.strips = 2;
  cut.dk.row_step = 32;
  EXPECT_EQ(unsupported_attention_gradient(cut, tensors.storage()),
            "gradient of attention with 2 strips of t1");
  AttentionGradient beyond = op;
  beyond.q.row = 1;
  EXPECT_EQ(unsupported_attention_gradient(beyond, tensors.storage()),
            "query rows up to 65 of a causal sequence of 64");
}

}  // namespace
}  // namespace commfuse

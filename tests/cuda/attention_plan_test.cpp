// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <set>

#include "harness/cuda/attention.h"
#include "harness/cuda/attention_blocks.h"
#include "harness/cuda/matmul_key.h"
#include "tests/cuda/plan_runner.h"

namespace commfuse {
namespace {

/// Shapes without memory.
Attention shape(std::int32_t tokens, const View& q, Mask mask, std::int32_t heads = 2,
                std::int32_t kv_heads = 1, std::int32_t head_dim = 3) {
  View k{.tensor = 1, .rows = tokens, .cols = kv_heads * head_dim};
  View o = q;
  o.tensor = 3;
  View v = k;
  v.tensor = 2;
  return {.o = o,
          .q = q,
          .k = k,
          .v = v,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .mask = mask};
}

bool visible(const Attention& op, std::int64_t query, std::int64_t key) {
  const auto tokens = op.k.rows;
  return op.mask == Mask::full || zigzag_position(static_cast<std::int32_t>(key), tokens) <=
                                      zigzag_position(static_cast<std::int32_t>(query), tokens);
}

/// Sequence row of a packed row of q.
std::int64_t sequence_row(const View& q, std::int64_t packed) {
  return q.row + packed / q.rows * q.row_step + packed % q.rows;
}

std::vector<QueryBlock> blocks_of(const Attention& op, std::int64_t most_rows) {
  const std::array queries{op.q, op.o};
  return query_blocks(queries, op.k.rows, op.mask, most_rows);
}

/// Every visible pair is met once, nothing else is seen, rows are of one distance.
void expect_exact_cover(const Attention& op, std::int64_t most_rows) {
  std::set<std::pair<std::int64_t, std::int64_t>> met;  // packed row, key
  for (const QueryBlock& block : blocks_of(op, most_rows)) {
    EXPECT_LE(block.rows, most_rows);
    for (std::int64_t i = 0; i < block.rows; ++i) {
      const std::int64_t packed = block.first + i * block.step;
      for (const KeyRange& range : block.keys) {
        for (std::int64_t j = 0; j < range.count; ++j) {
          const std::int64_t key = range.first + j * range.step;
          ASSERT_LT(key, op.k.rows);
          const bool seen =
              range.begin + i * range.begin_step <= j && j < range.end + i * range.end_step;
          EXPECT_EQ(seen, visible(op, sequence_row(op.q, packed), key)) << packed << " " << key;
          const bool again = seen && !met.emplace(packed, key).second;
          EXPECT_FALSE(again) << packed << " " << key;
        }
      }
    }
  }
  for (std::int64_t packed = 0; packed < op.q.total_rows(); ++packed) {
    for (std::int64_t key = 0; key < op.k.rows; ++key) {
      EXPECT_EQ(met.contains({packed, key}), visible(op, sequence_row(op.q, packed), key))
          << packed << " " << key;
    }
  }
}

TEST(AttentionBlocks, MeetEveryVisiblePairOnce) {
  for (const Mask mask : {Mask::full, Mask::causal}) {
    for (const std::int32_t tokens : {1, 2, 7, 16}) {
      for (std::int32_t first = 0; first < tokens; first += 3) {
        for (const std::int64_t most_rows : {1, 3, 100}) {
          const View q{.row = first, .rows = tokens - first, .cols = 6};
          expect_exact_cover(shape(tokens, q, mask), most_rows);
        }
      }
    }
  }
}

TEST(AttentionBlocks, MeetEveryVisiblePairOfStripsOnce) {
  for (const Mask mask : {Mask::full, Mask::causal}) {
    for (const std::int32_t rows : {1, 2, 3}) {
      const View q{.row = 1, .rows = rows, .cols = 6, .strips = 3, .row_step = 5};
      Attention op = shape(15, q, mask);
      expect_exact_cover(op, 2);
      // an output that is cut elsewhere
      op.o = {.tensor = 3, .rows = rows * 3, .cols = 6};
      expect_exact_cover(op, 2);
      if (rows != 2) continue;
      op.o = {.tensor = 3, .rows = 3, .cols = 6, .strips = 2, .row_step = 4};
      expect_exact_cover(op, 2);
    }
  }
}

TEST(AttentionBlocks, SkipKeysThatNoRowSees) {
  const View q{.row = 0, .rows = 64, .cols = 6};
  std::int64_t computed = 0;
  for (const QueryBlock& block : blocks_of(shape(64, q, Mask::causal), 4)) {
    computed += block.rows * (block.keys[0].count + block.keys[1].count);
  }
  const std::int64_t visible_pairs = 64 * 65 / 2;
  // the rest is half of a square of 4 on each of 16 diagonals
  EXPECT_EQ(computed, visible_pairs + 16 * (4 * 3 / 2));
}

TEST(AttentionBlocks, HeadsMakeFewBatches) {
  const auto batches = [](std::int32_t heads, std::int32_t kv_heads) {
    std::set<std::pair<std::int32_t, std::int32_t>> met;
    const auto all = head_batches(heads, kv_heads);
    for (const HeadBatch& batch : all) {
      EXPECT_EQ(batch.heads, all.front().heads);
      for (std::int32_t i = 0; i < batch.heads; ++i) {
        const std::int32_t head = batch.q_first + i * batch.q_step;
        EXPECT_EQ(batch.kv_first + i * batch.kv_step, head / (heads / kv_heads));
        EXPECT_TRUE(met.emplace(head, batch.kv_first + i * batch.kv_step).second);
      }
    }
    EXPECT_EQ(met.size(), static_cast<std::size_t>(heads));
    return all.size();
  };
  EXPECT_EQ(batches(8, 8), 1U);
  EXPECT_EQ(batches(8, 1), 1U);
  EXPECT_EQ(batches(32, 8), 4U);
  EXPECT_EQ(batches(32, 4), 4U);
  EXPECT_EQ(batches(12, 6), 2U);
}

TEST(AttentionBlocks, RowsFillADeviceAndBoundTheScores) {
  EXPECT_EQ(rows_per_block(1, 1), 512);
  EXPECT_EQ(rows_per_block(32, 32), 256);
  EXPECT_EQ(rows_per_block(32, 8), 512);
  EXPECT_EQ(rows_per_block(128, 128), 128);
}

// ---- the whole, run on the host ----

void run_on_host(const SoftmaxRows& all) {
  auto* const target = static_cast<float*>(all.probabilities);
  for (std::int64_t i = 0; i < std::int64_t{all.rows} * all.heads; ++i) {
    const std::int64_t row = i % all.rows;
    std::vector<double> weights;
    double sum = 0;
    for (const ScorePart& part : all.parts) {
      for (std::int64_t j = 0; j < part.count; ++j) {
        const bool seen =
            part.begin + row * part.begin_step <= j && j < part.end + row * part.end_step;
        weights.push_back(seen ? std::exp(double{all.scores[i * all.pitch + part.column + j]}) : 0);
        sum += weights.back();
      }
    }
    auto weight = weights.begin();
    for (const ScorePart& part : all.parts) {
      for (std::int64_t j = 0; j < part.count; ++j) {
        target[i * all.pitch + part.column + j] = static_cast<float>(*weight++ / sum);
      }
    }
  }
}

struct Freed {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Workspace = std::unique_ptr<std::byte, Freed>;
/// Filled with bytes that are NaN as numbers.
Workspace workspace_of(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>((bytes + 255) / 256 * 256);
  Workspace memory(static_cast<std::byte*>(std::aligned_alloc(256, size)));
  std::fill_n(memory.get(), size, std::byte{0xff});
  return memory;
}

void expect_attention(PlanTensors& tensors, const Attention& op) {
  ASSERT_EQ(misfit(op), "");
  const DeviceStorage storage = tensors.storage();
  ASSERT_EQ(unsupported_attention(op, storage), "");
  const Workspace workspace = workspace_of(workspace_bytes(op, storage));
  for (const AttentionStep& step : attention_steps(op, storage, workspace.get())) {
    for (const Matmul& matmul : step.scores) run_on_host(matmul);
    run_on_host(step.softmax);
    for (const Matmul& matmul : step.outputs) run_on_host(matmul);
    EXPECT_FALSE(step.rounding);
  }
  const std::int32_t group = op.heads / op.kv_heads;
  const double scale = 1 / std::sqrt(double(op.head_dim));
  for (std::int64_t row = 0; row < op.q.total_rows(); ++row) {
    for (std::int32_t head = 0; head < op.heads; ++head) {
      const std::int64_t kv_col = std::int64_t{head} / group * op.head_dim;
      std::vector<double> expected(static_cast<std::size_t>(op.head_dim));
      double sum = 0;
      for (std::int64_t key = 0; key < op.k.rows; ++key) {
        if (!visible(op, sequence_row(op.q, row), key)) continue;
        double score = 0;
        for (std::int64_t i = 0; i < op.head_dim; ++i) {
          score +=
              tensors.at(op.q, row, head * op.head_dim + i) * tensors.at(op.k, key, kv_col + i);
        }
        const double weight = std::exp(score * scale);
        sum += weight;
        for (std::int64_t i = 0; i < op.head_dim; ++i) {
          expected[static_cast<std::size_t>(i)] += weight * tensors.at(op.v, key, kv_col + i);
        }
      }
      for (std::int64_t i = 0; i < op.head_dim; ++i) {
        EXPECT_NEAR(tensors.at(op.o, row, head * op.head_dim + i),
                    expected[static_cast<std::size_t>(i)] / sum, 1e-5)
            << row << " " << head << " " << i;
      }
    }
  }
}

TEST(AttentionPlan, MatchesTheDefinition) {
  for (const Mask mask : {Mask::full, Mask::causal}) {
    for (const auto& [heads, kv_heads] :
         {std::pair(1, 1), {3, 3}, {4, 2}, {6, 3}, {6, 2}, {4, 1}}) {
      for (const std::int32_t tokens : {1, 6, 13}) {
        PlanTensors tensors;
        constexpr std::int32_t kHeadDim = 5;
        const View q{.tensor = tensors.add_random(tokens + 2, heads * kHeadDim + 3),
                     .rows = tokens,
                     .col = 2,
                     .cols = heads * kHeadDim};
        View o = q;
        o.tensor = tensors.add(tokens + 2, heads * kHeadDim + 3);
        const auto keys = [&] {
          return View{.tensor = tensors.add_random(tokens + 1, kv_heads * kHeadDim + 1),
                      .row = 1,
                      .rows = tokens,
                      .col = 1,
                      .cols = kv_heads * kHeadDim};
        };
        expect_attention(tensors, {.o = o,
                                   .q = q,
                                   .k = keys(),
                                   .v = keys(),
                                   .heads = heads,
                                   .kv_heads = kv_heads,
                                   .head_dim = kHeadDim,
                                   .mask = mask});
        EXPECT_EQ(tensors.written(o.tensor), o.elements());
      }
    }
  }
}

TEST(AttentionPlan, OfStripsMatchesTheDefinition) {
  for (const Mask mask : {Mask::full, Mask::causal}) {
    PlanTensors tensors;
    const View q{.tensor = tensors.add_random(17, 8),
                 .row = 1,
                 .rows = 3,
                 .cols = 8,
                 .strips = 3,
                 .row_step = 5};
    const View o = tensors.all(tensors.add(9, 8));
    const View k = tensors.all(tensors.add_random(17, 4));
    const View v = tensors.all(tensors.add_random(17, 4));
    expect_attention(
        tensors,
        {.o = o, .q = q, .k = k, .v = v, .heads = 4, .kv_heads = 2, .head_dim = 2, .mask = mask});
  }
}

TEST(AttentionPlan, OfSeveralBlocksMatchesTheDefinition) {
  for (const Mask mask : {Mask::full, Mask::causal}) {
    PlanTensors tensors;
    const std::int32_t tokens = mask == Mask::full ? 600 : 1100;  // more than a block, per parity
    const View q = tensors.all(tensors.add_random(tokens, 1));
    const View o = tensors.all(tensors.add(tokens, 1));
    const View k = tensors.all(tensors.add_random(tokens, 1));
    const View v = tensors.all(tensors.add_random(tokens, 1));
    const Attention op{.o = o, .q = q, .k = k, .v = v, .mask = mask};
    EXPECT_EQ(attention_steps(op, tensors.storage(), nullptr).size(), mask == Mask::full ? 2U : 4U);
    expect_attention(tensors, op);
  }
}

Attention of_dtype(PlanTensors& tensors, DType dtype, Mask mask) {
  const auto matrix = [&] { return tensors.all(tensors.add(64, 32, dtype)); };
  return {.o = matrix(),
          .q = matrix(),
          .k = matrix(),
          .v = matrix(),
          .heads = 2,
          .kv_heads = 2,
          .head_dim = 16,
          .mask = mask};
}

void expect_rounded_once(DType dtype) {
  PlanTensors tensors;
  const Attention causal = of_dtype(tensors, dtype, Mask::causal);
  const auto steps = attention_steps(causal, tensors.storage(), nullptr);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_FALSE(steps[0].rounding);  // even rows meet one range
  EXPECT_EQ(steps[0].outputs.back().result, dtype);
  ASSERT_TRUE(steps[1].rounding);
  ASSERT_EQ(steps[1].outputs.size(), 2U);
  for (const Matmul& output : steps[1].outputs) EXPECT_EQ(output.result, DType::f32);
  EXPECT_EQ(steps[1].rounding->source.data, steps[1].outputs[1].d.data);
  EXPECT_EQ(steps[1].rounding->source.dtype, DType::f32);
  EXPECT_EQ(steps[1].rounding->target.dtype, dtype);
  EXPECT_EQ(steps[1].rounding->target.pitch, 64);
  const Attention full = of_dtype(tensors, dtype, Mask::full);
  for (const AttentionStep& step : attention_steps(full, tensors.storage(), nullptr)) {
    EXPECT_FALSE(step.rounding);
  }
}

TEST(AttentionPlan, NarrowSumsOfTwoRangesAreRoundedOnce) {
  expect_rounded_once(DType::bf16);
  expect_rounded_once(DType::f16);
}

TEST(AttentionPlan, PiecesOfTheWorkspaceAreApartAndAligned) {
  for (const Mask mask : {Mask::full, Mask::causal}) {
    PlanTensors tensors;
    const Attention op = of_dtype(tensors, DType::bf16, mask);
    auto* const base = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 20);
    const std::byte* const end = base + workspace_bytes(op, tensors.storage());
    for (const AttentionStep& step : attention_steps(op, tensors.storage(), base)) {
      const std::int64_t scores =
          std::int64_t{step.softmax.rows} * step.softmax.heads * step.softmax.pitch;
      const auto* const from = reinterpret_cast<const std::byte*>(step.softmax.scores);
      const auto* const to = static_cast<const std::byte*>(step.softmax.probabilities);
      EXPECT_EQ(from, base);
      EXPECT_GE(to, from + scores * 4);
      EXPECT_LE(to + scores * 2, end);
      for (const Matmul& matmul : step.scores) EXPECT_EQ(key_of(matmul).d.alignment, 256U);
      for (const Matmul& matmul : step.outputs) {
        EXPECT_EQ(key_of(matmul).a.alignment, 256U);
        if (!step.rounding) continue;
        EXPECT_GE(matmul.d.data, to + scores * 2);
        EXPECT_LE(matmul.d.data + matmul.m * matmul.n * matmul.batch * 4, end);
      }
    }
  }
}

TEST(AttentionPlan, NamesWhatItCannotServe) {
  PlanTensors tensors;
  Attention op = of_dtype(tensors, DType::bf16, Mask::causal);
  EXPECT_EQ(unsupported_attention(op, tensors.storage()), "");
  Attention mixed = op;
  mixed.v = tensors.all(tensors.add(64, 32, DType::f32));
  EXPECT_EQ(unsupported_attention(mixed, tensors.storage()), "q bf16 and t4 fp32");
  Attention cut = op;
  cut.k.rows = 32;
  cut.k.strips = 2;
  cut.k.row_step = 32;
  EXPECT_EQ(unsupported_attention(cut, tensors.storage()), "k and v of 2 and 1 strips, not one");
  Attention beyond = op;
  beyond.q.row = 1;
  EXPECT_EQ(unsupported_attention(beyond, tensors.storage()),
            "query rows up to 65 of a causal sequence of 64");
}

}  // namespace
}  // namespace commfuse

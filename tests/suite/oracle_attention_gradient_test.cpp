// SPDX-License-Identifier: Apache-2.0
// The oracle's gradient of attention: its values against the definition, its bounds against runs in
// fp32 and inputs that are off.
#include "suite/oracle_attention_gradient.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/suite/attention_gradient_reference.h"
#include "tests/suite/plain_run.h"

namespace commfuse {
namespace {

constexpr Source kRandom{3, DataMode::random};

Shape shape_of(bool causal, DType dtype) {
  Shape shape;
  shape.tokens = 24;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 6;
  shape.causal = causal;
  shape.dtype = dtype;
  return shape;
}

std::vector<std::int32_t> counted(std::int32_t count) {
  std::vector<std::int32_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

/// Some rows of all columns, and of those `cols`.
Rows part_of(const Rows& all, Range cols, std::span<const std::int32_t> rows) {
  Rows part(static_cast<std::int32_t>(rows.size()), cols.count);
  for (std::int32_t row = 0; row < part.count; ++row) {
    for (std::int32_t col = 0; col < part.cols; ++col) {
      const std::size_t from = all.at(rows[static_cast<std::size_t>(row)], cols.first + col);
      part.value[part.at(row, col)] = all.value[from];
      part.error[part.at(row, col)] = all.error[from];
      part.scale[part.at(row, col)] = all.scale[from];
    }
  }
  return part;
}

/// All rows of the operands.
struct Operands {
  Rows d_o, q, k, v;

  [[nodiscard]] AttentionGradientInputs inputs(const Shape& shape) const {
    const auto heads = [&shape](const Rows& rows) {
      return [&rows, &shape](Range asked, std::span<const std::int32_t> of) {
        return part_of(rows, {asked.first * shape.head_dim, asked.count * shape.head_dim}, of);
      };
    };
    const auto head = [&shape](const Rows& rows) {
      return [&rows, &shape](std::int32_t asked) {
        return part_of(rows, {asked * shape.head_dim, shape.head_dim}, counted(shape.tokens));
      };
    };
    return {.forward = {.q = heads(q), .k = head(k), .v = head(v)}, .d_o = heads(d_o)};
  }
};

/// The op on all of it, in tensors 0 to 6: d_o, q, k, v, dq, dk, dv.
AttentionGradient whole_op(const Shape& shape) {
  const View q{.rows = shape.tokens, .cols = shape.heads * shape.head_dim};
  const View k{.rows = shape.tokens, .cols = shape.kv_heads * shape.head_dim};
  const auto in = [](View view, TensorId tensor) {
    view.tensor = tensor;
    return view;
  };
  return {.dq = in(q, 4),
          .dk = in(k, 5),
          .dv = in(k, 6),
          .d_o = in(q, 0),
          .q = in(q, 1),
          .k = in(k, 2),
          .v = in(k, 3),
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .head_dim = shape.head_dim,
          .mask = shape.causal ? Mask::causal : Mask::full};
}

Fill input(const Shape& shape, TensorId id) {
  const AttentionGradient op = whole_op(shape);
  const View views[] = {op.d_o, op.q, op.k, op.v};
  return {.view = views[id], .global = id};
}

Operands operands(const Shape& shape) {
  const auto rows = [&](TensorId id) {
    const Fill fill = input(shape, id);
    return all_rows(fill, {0, fill.view.cols}, kRandom);
  };
  return {rows(0), rows(1), rows(2), rows(3)};
}

ExpectedGradient by_definition(const AttentionGradient& op, const Operands& in) {
  return AttentionGradientReference(
             op, {.d_o = in.d_o.value, .q = in.q.value, .k = in.k.value, .v = in.v.value})
      .gradient();
}

void expect_values(const Rows& rows, const std::vector<BoundedValue>& wanted) {
  ASSERT_EQ(rows.value.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(rows.value[i], wanted[i].value, 1e-12);
  }
}

/// The largest share of its bound that an element is off by.
double worst_share(const Rows& rows, const std::vector<BoundedValue>& got) {
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    worst = std::max(worst, std::abs(got[i].value - rows.value[i]) / rows.error[i]);
  }
  return worst;
}

double share_outside(const Rows& rows, const std::vector<BoundedValue>& got) {
  double outside = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    outside += std::abs(got[i].value - rows.value[i]) > rows.error[i] ? 1 : 0;
  }
  return outside / static_cast<double>(got.size());
}

TEST(AttentionGradientOracle, HasTheValuesOfTheDefinition) {
  for (const bool causal : {false, true}) {
    const Shape shape = shape_of(causal, DType::f32);
    const Operands in = operands(shape);
    const AttentionGradientInputs inputs = in.inputs(shape);
    const ExpectedGradient wanted = by_definition(whole_op(shape), in);
    const std::vector<std::int32_t> all = counted(shape.tokens);
    expect_values(attend_gradient(shape, inputs, {0, shape.heads}, all), wanted.dq);
    const KeyGradients keys = attend_key_gradients(shape, inputs, {0, shape.kv_heads}, all, {});
    expect_values(keys.dk, wanted.dk);
    expect_values(keys.dv, wanted.dv);
  }
}

TEST(AttentionGradientOracle, AnswersForSomeRowsAndHeads) {
  const std::vector<std::int32_t> asked{7, 2, 23, 16};
  for (const bool causal : {false, true}) {
    const Shape shape = shape_of(causal, DType::bf16);
    const Operands in = operands(shape);
    const AttentionGradientInputs inputs = in.inputs(shape);
    const std::vector<std::int32_t> all = counted(shape.tokens);
    const auto expect_part = [&](const Rows& some, const Rows& whole, std::int32_t first_col) {
      const Rows part = part_of(whole, {first_col, some.cols}, asked);
      EXPECT_EQ(some.value, part.value);
      EXPECT_EQ(some.error, part.error);
    };
    expect_part(attend_gradient(shape, inputs, {1, 2}, asked),
                attend_gradient(shape, inputs, {0, shape.heads}, all), shape.head_dim);
    const KeyGradients some = attend_key_gradients(shape, inputs, {1, 1}, asked, {});
    const KeyGradients whole = attend_key_gradients(shape, inputs, {0, shape.kv_heads}, all, {});
    expect_part(some.dk, whole.dk, shape.head_dim);
    expect_part(some.dv, whole.dv, shape.head_dim);
  }
}

/// Two ranks that do the same; phases cut into tiles.
Workload workload_of(const Shape& shape, DType sums) {
  Workload workload;
  workload.ranks = 2;
  const AttentionGradient op = whole_op(shape);
  for (const View& view : {op.d_o, op.q, op.k, op.v, op.dq, op.dk, op.dv}) {
    const bool summed = view.tensor >= op.dk.tensor;
    workload.tensors.push_back(
        {"t" + std::to_string(view.tensor), view.rows, view.cols, summed ? sums : shape.dtype});
  }
  workload.inputs = [shape](std::int32_t) {
    return std::vector<Fill>{input(shape, 0), input(shape, 1), input(shape, 2), input(shape, 3)};
  };
  const Axis axis{.ranks = 2, .rows = shape.tokens / 2, .unit = 2};
  const std::vector<Tensor> tensors = workload.tensors;
  workload.stages.push_back({.name = "attention", .axis = axis, .phases = {}});
  workload.stages[0].phases.emplace_back([=](const Tile& tile, const Target&) {
    AttentionGradient part = op;
    for (View* const view : {&part.dq, &part.d_o, &part.q}) {
      *view = tile_rows(view->tensor, tensors[view->tensor], axis, tile);
    }
    part.adds = true;
    return std::vector<Compute>{part};
  });
  return workload;
}

void expect_run(const PlainRun& run, TensorId tensor, const Rows& expected) {
  for (std::int32_t row = 0; row < expected.count; ++row) {
    for (std::int32_t col = 0; col < expected.cols; ++col) {
      const std::size_t i = expected.at(row, col);
      ASSERT_LE(std::abs(run.value(1, tensor, row, col) - expected.value[i]), expected.error[i])
          << "tensor " << tensor << " row " << row << " column " << col;
    }
  }
}

TEST(AttentionGradientOracle, BoundsAPlainRunInEveryCut) {
  for (const bool causal : {false, true}) {
    for (const DType dtype : kDTypes) {
      for (const DType sums : {dtype, DType::f32}) {
        const Shape shape = shape_of(causal, dtype);
        const Workload workload = workload_of(shape, sums);
        const Operands in = operands(shape);
        const AttentionGradientInputs inputs = in.inputs(shape);
        const std::vector<std::int32_t> all = counted(shape.tokens);
        for (const Cut cut : {Cut::whole, Cut::slices, Cut::strips}) {
          PlainRun run(workload, kRandom);
          run.run(cut);
          const std::int32_t tiles = cut == Cut::whole ? 1 : cut == Cut::strips ? 2 : 4;
          expect_run(run, 4, attend_gradient(shape, inputs, {0, shape.heads}, all));
          const KeyGradients keys =
              attend_key_gradients(shape, inputs, {0, shape.kv_heads}, all, {sums, tiles});
          expect_run(run, 5, keys.dk);
          expect_run(run, 6, keys.dv);
        }
      }
    }
  }
}

/// Operands that are known with an error, and what they really are.
struct KnownAndReal {
  Operands known, real;
};

KnownAndReal off_by(const Operands& exact, double error) {
  KnownAndReal both{exact, exact};
  std::mt19937 random(11);
  std::uniform_real_distribution<double> any(-1, 1);
  for (Rows Operands::*const rows : {&Operands::d_o, &Operands::q, &Operands::k, &Operands::v}) {
    Rows& known = both.known.*rows;
    for (std::size_t i = 0; i < known.value.size(); ++i) {
      known.error[i] = known.scale[i] = error * std::abs(known.value[i]);
      (both.real.*rows).value[i] += known.error[i] * any(random);
    }
  }
  return both;
}

TEST(AttentionGradientOracle, BoundsWhatInputsAreOffBy) {
  for (const bool causal : {false, true}) {
    const Shape shape = shape_of(causal, DType::f32);
    for (const double error : {0x1p-8, 0x1p-4}) {
      const KnownAndReal both = off_by(operands(shape), error);
      const AttentionGradientInputs inputs = both.known.inputs(shape);
      const ExpectedGradient real = by_definition(whole_op(shape), both.real);
      const std::vector<std::int32_t> all = counted(shape.tokens);
      const KeyGradients keys = attend_key_gradients(shape, inputs, {0, shape.kv_heads}, all, {});
      for (const double share :
           {worst_share(attend_gradient(shape, inputs, {0, shape.heads}, all), real.dq),
            worst_share(keys.dk, real.dk), worst_share(keys.dv, real.dv)}) {
        EXPECT_LE(share, 1);
        EXPECT_GT(share, 0.01);  // not needlessly wide
      }
    }
  }
}

TEST(AttentionGradientOracle, IsTightEnoughToSeeAMissingQuery) {
  for (const DType dtype : kDTypes) {
    const Shape shape = shape_of(false, dtype);
    const Operands in = operands(shape);
    const AttentionGradientInputs inputs = in.inputs(shape);
    const std::vector<std::int32_t> all = counted(shape.tokens);
    AttentionGradient shorter = whole_op(shape);
    for (View* const view : {&shorter.dq, &shorter.d_o, &shorter.q}) --view->rows;
    const ExpectedGradient without = by_definition(shorter, in);
    const KeyGradients keys =
        attend_key_gradients(shape, inputs, {0, shape.kv_heads}, all, {DType::f32, 4});
    EXPECT_GT(share_outside(keys.dk, without.dk), is_narrow(dtype) ? 0.5 : 0.99) << name_of(dtype);
    EXPECT_GT(share_outside(keys.dv, without.dv), is_narrow(dtype) ? 0.5 : 0.99) << name_of(dtype);
  }
}

/// dQ of slopes P o dP, without the row sums.
std::vector<BoundedValue> without_mean(const Shape& shape, const Operands& in) {
  const double scale = 1 / std::sqrt(static_cast<double>(shape.head_dim));
  std::vector<BoundedValue> dq(in.q.value.size());
  for (std::int32_t row = 0; row < shape.tokens; ++row) {
    for (std::int32_t head = 0; head < shape.heads; ++head) {
      const std::int32_t kv_col = head / (shape.heads / shape.kv_heads) * shape.head_dim;
      const auto product = [&](const Rows& a, const Rows& b, std::int32_t token) {
        double sum = 0;
        for (std::int32_t c = 0; c < shape.head_dim; ++c) {
          sum += a.value[a.at(row, head * shape.head_dim + c)] * b.value[b.at(token, kv_col + c)];
        }
        return sum;
      };
      double total = 0;
      for (std::int32_t t = 0; t < shape.tokens; ++t) {
        total += std::exp(scale * product(in.q, in.k, t));
      }
      for (std::int32_t t = 0; t < shape.tokens; ++t) {
        const double weight = std::exp(scale * product(in.q, in.k, t)) / total;
        for (std::int32_t c = 0; c < shape.head_dim; ++c) {
          dq[in.q.at(row, head * shape.head_dim + c)].value +=
              scale * weight * product(in.d_o, in.v, t) * in.k.value[in.k.at(t, kv_col + c)];
        }
      }
    }
  }
  return dq;
}

TEST(AttentionGradientOracle, IsTightEnoughToSeeAMissingMean) {
  for (const DType dtype : kDTypes) {
    const Shape shape = shape_of(false, dtype);
    const Operands in = operands(shape);
    const Rows dq =
        attend_gradient(shape, in.inputs(shape), {0, shape.heads}, counted(shape.tokens));
    EXPECT_EQ(share_outside(dq, by_definition(whole_op(shape), in).dq), 0);
    EXPECT_GT(share_outside(dq, without_mean(shape, in)), is_narrow(dtype) ? 0.5 : 0.99)
        << name_of(dtype);
  }
}

}  // namespace
}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/tpsp.h"

#include "suite/workloads/phases.h"
#include "suite/workloads/tpsp_answers.h"
#include "suite/workloads/tpsp_inputs.h"

namespace commfuse {
namespace {

std::int32_t stacked_features(const Shape& shape, std::int32_t ranks) {
  return (shape.activation == Activation::swiglu ? 2 : 1) * (shape.ffn / ranks);
}

/// Rows of a rank's slice of X, where the stage gathers it; all rows otherwise.
Fill x_of(const Shape& shape, const Axis& axis, const Operand& x, bool gathered,
          std::int32_t rank) {
  const Fill global = tpsp_input(shape, TpspInput::x);
  if (!gathered) return piece_of(global, x.all(), 0, 0);
  const std::int32_t row = rank * axis.rows;
  return piece_of(global, x.rows(row, axis.rows), row, 0);
}

/// The rank's output features of a column-parallel weight, at `row` of its tensor.
Fill features_of(const Shape& shape, TpspInput input, const Operand& w, std::int32_t row,
                 std::int32_t features, std::int32_t rank) {
  return piece_of(tpsp_input(shape, input), w.rows(row, features), rank * features, 0);
}

/// Of the largest workload, the gated MLP: X, partial and result; U and D; H and A.
WorkSize mlp_size(const Shape& shape) {
  const double tokens = shape.tokens;
  const double hidden = shape.hidden;
  const double ffn = shape.ffn;
  return {tokens * hidden * ffn, 3 * (tokens * hidden + ffn * hidden + tokens * ffn)};
}

Workload mlp(std::string name, const Shape& shape, std::int32_t ranks, bool gathered) {
  WorkloadBuilder builder(std::move(name), shape, ranks);
  const Axis axis = token_axis(shape, ranks);
  const std::int32_t features = shape.ffn / ranks;
  const bool gated = shape.activation == Activation::swiglu;
  const Operand x = builder.tensor("X", shape.tokens, shape.hidden);
  const Operand u = builder.weight("U", stacked_features(shape, ranks), shape.hidden);
  const Operand h = builder.tensor("H", shape.tokens, u.tensor.rows);
  const Operand a = builder.tensor("A", shape.tokens, features);
  const Operand d = builder.weight("D", shape.hidden, features);
  const Operand partial = builder.tensor("partial", shape.tokens, shape.hidden);
  const Operand result = builder.tensor("result", axis.rows, shape.hidden);
  builder.inputs([=](std::int32_t rank) {
    std::vector<Fill> fills{x_of(shape, axis, x, gathered, rank)};
    if (gated) fills.push_back(features_of(shape, TpspInput::gate, u, 0, features, rank));
    fills.push_back(features_of(shape, TpspInput::up, u, gated ? features : 0, features, rank));
    fills.push_back(tpsp_columns(shape, TpspInput::down, d.all(), rank));
    return fills;
  });
  Stage stage{.name = "mlp",
              .axis = axis,
              .phases = {linear(axis, h, x, u), activation(axis, shape.activation, a, h),
                         last_linear(axis, partial, a, d)},
              .gather = {},
              .reduce_scatter = ReduceScatter{partial.id, result.id}};
  if (gathered) stage.gather = Gather{x.id};
  builder.answers([=](const Source& source, Portion) {
    return std::vector{mlp_answers(partial.id, shape, ranks, source)};
  });
  builder.stage(std::move(stage));
  builder.output(result);
  return builder.take();
}

}  // namespace

std::string tpsp_mlp_unsupported(const Shape& shape, std::int32_t ranks) {
  for (const auto& reason :
       {unless_one_layer(shape), unless_given("tokens", shape.tokens),
        unless_given("ffn", shape.ffn), unless_divisible("tokens", shape.tokens, ranks),
        unless_divisible("ffn", shape.ffn, ranks),
        unless_countable("tokens x hidden x ffn", mlp_size(shape))}) {
    if (!reason.empty()) return reason;
  }
  return {};
}

Workload tpsp_ag_gemm(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("tpsp/ag_gemm", shape, ranks);
  const Axis axis = token_axis(shape, ranks);
  const Operand x = builder.tensor("X", shape.tokens, shape.hidden);
  const Operand u = builder.weight("U", shape.ffn / ranks, shape.hidden);
  const Operand h = builder.tensor("H", shape.tokens, u.tensor.rows);
  builder.inputs([=](std::int32_t rank) {
    return std::vector{x_of(shape, axis, x, true, rank),
                       features_of(shape, TpspInput::up, u, 0, u.tensor.rows, rank)};
  });
  builder.answers([=](const Source& source, Portion) {
    return std::vector{ag_gemm_answers(h.id, shape, ranks, source)};
  });
  builder.stage({.name = "ag_gemm",
                 .axis = axis,
                 .phases = {last_linear(axis, h, x, u)},
                 .gather = Gather{x.id},
                 .reduce_scatter = {}});
  builder.output(h);
  return builder.take();
}

Workload tpsp_gemm_rs(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("tpsp/gemm_rs", shape, ranks);
  const Axis axis = token_axis(shape, ranks);
  const Operand a = builder.tensor("A", shape.tokens, shape.ffn / ranks);
  const Operand d = builder.weight("D", shape.hidden, a.tensor.cols);
  const Operand partial = builder.tensor("partial", shape.tokens, shape.hidden);
  const Operand result = builder.tensor("result", axis.rows, shape.hidden);
  builder.inputs([=](std::int32_t rank) {
    return std::vector{tpsp_columns(shape, TpspInput::a, a.all(), rank),
                       tpsp_columns(shape, TpspInput::down, d.all(), rank)};
  });
  builder.answers([=](const Source& source, Portion) {
    return std::vector{gemm_rs_answers(partial.id, shape, ranks, source)};
  });
  builder.stage({.name = "gemm_rs",
                 .axis = axis,
                 .phases = {last_linear(axis, partial, a, d)},
                 .gather = {},
                 .reduce_scatter = ReduceScatter{partial.id, result.id}});
  builder.output(result);
  return builder.take();
}

Workload tpsp_mlp(const Shape& shape, std::int32_t ranks) {
  return mlp("tpsp/mlp", shape, ranks, true);
}

Workload tpsp_mlp_rs(const Shape& shape, std::int32_t ranks) {
  return mlp("tpsp/mlp_rs", shape, ranks, false);
}

}  // namespace commfuse

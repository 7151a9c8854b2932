// SPDX-License-Identifier: Apache-2.0
// Backward of the linear layers. Products with what was summed over features forward are given by
// their transposes, so that sums of exact data stay small (data.cpp): weights are sparse along what
// is summed here, and so are saved activations along the tokens.
#include "suite/workloads/phases.h"
#include "suite/workloads/tpsp.h"
#include "suite/workloads/tpsp_answers.h"
#include "suite/workloads/tpsp_inputs.h"

namespace commfuse {
namespace {

using RowNumbers = std::span<const std::int32_t>;

Axis token_axis_of(const Shape& shape, std::int32_t ranks) {
  return {.ranks = ranks, .rows = shape.tokens / ranks};
}

/// The rank's slice of tokens, at its place in the gather buffer.
Fill own_tokens(const Fill& global, const Operand& buffer, const Axis& axis, std::int32_t rank) {
  const std::int32_t first = rank * axis.rows;
  return piece_of(global, buffer.rows(first, axis.rows), first, 0);
}

/// dy^T x over all tokens; dy as the transpose of a global tensor, of which every rank has
/// `features` rows, and x as the part that the ranks asked for have of a sparse one's.
Answers gradient_answer(TensorId tensor, const Fill& dy_transposed, std::int32_t features,
                        const std::function<WeightPart(Range asked)>& xt, const Source& source) {
  return {.tensor = tensor,
          .exact = true,
          .rows =
              [=](Range asked, RowNumbers rows) {
                std::vector<std::int32_t> numbers(rows.begin(), rows.end());
                for (std::int32_t& number : numbers) number += asked.first * features;
                const Range tokens{0, dy_transposed.view.cols};
                return linear(input_rows(dy_transposed, tokens, numbers, source), xt(asked), source,
                              DType::f32);
              },
          .product =
              [=](Range asked) {
                return Product{dy_transposed, xt(asked), asked.first * features};
              }};
}

}  // namespace

Workload tpsp_ag_gemm_backward(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("tpsp/ag_gemm", shape, ranks);
  const Axis axis = token_axis_of(shape, ranks);
  const std::int32_t features = shape.ffn / ranks;
  const Operand dh = builder.tensor("dH", shape.tokens, features);
  const Operand x = builder.tensor("X", shape.tokens, shape.hidden);
  const Operand u = builder.weight("U", features, shape.hidden);
  const Operand partial = builder.tensor("partial", shape.tokens, shape.hidden);
  const Operand dx = builder.tensor("dX", axis.rows, shape.hidden);
  const Operand du = builder.gradient("dU", u);
  builder.inputs([=](std::int32_t rank) {
    return std::vector{
        tpsp_columns(shape, TpspInput::a, dh.all(), rank),
        own_tokens(tpsp_transpose(shape, TpspInput::xt), x, axis, rank),
        piece_of(tpsp_transpose(shape, TpspInput::down), u.all(), rank * features, 0)};
  });
  builder.answers([=](const Source& source, Portion) {
    const auto xt = [=](Range) {
      return WeightPart{.global = tpsp_input(shape, TpspInput::xt),
                        .rows = {0, shape.hidden},
                        .cols = {0, shape.tokens}};
    };
    return std::vector{
        gemm_rs_answers(partial.id, shape, ranks, source),
        gradient_answer(du.id, tpsp_transpose(shape, TpspInput::a), features, xt, source)};
  });
  builder.stage({.name = "dgrad",
                 .axis = axis,
                 .phases = {last_input_gradient(axis, partial, dh, u)},
                 .reduce_scatter = ReduceScatter{partial.id, dx.id}});
  builder.stage({.name = "wgrad",
                 .axis = axis,
                 .phases = {weight_gradient_over_rows(axis, du, dh, x)},
                 .gather = Gather{x.id}});
  builder.output(dx);
  builder.output(du);
  return builder.take();
}

Workload tpsp_gemm_rs_backward(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("tpsp/gemm_rs", shape, ranks);
  const Axis axis = token_axis_of(shape, ranks);
  const std::int32_t features = shape.ffn / ranks;
  const Operand dy = builder.tensor("dY", shape.tokens, shape.hidden);
  const Operand a = builder.tensor("A", shape.tokens, features);
  const Operand d = builder.weight("D", shape.hidden, features);
  const Operand da = builder.tensor("dA", shape.tokens, features);
  const Operand dd = builder.gradient("dD", d);
  builder.inputs([=](std::int32_t rank) {
    return std::vector{own_tokens(tpsp_input(shape, TpspInput::x), dy, axis, rank),
                       piece_of(tpsp_transpose(shape, TpspInput::at), a.all(), 0, rank * features),
                       piece_of(tpsp_transpose(shape, TpspInput::up), d.all(), 0, rank * features)};
  });
  builder.answers([=](const Source& source, Portion) {
    const auto at = [=](Range asked) {
      return WeightPart{.global = tpsp_input(shape, TpspInput::at),
                        .rows = share_of(asked, shape.ffn, ranks),
                        .cols = {0, shape.tokens}};
    };
    return std::vector{ag_gemm_answers(da.id, shape, ranks, source),
                       gradient_answer(dd.id, tpsp_transpose(shape, TpspInput::x), 0, at, source)};
  });
  builder.stage(
      {.name = "backward",
       .axis = axis,
       .phases = {input_gradient(axis, da, dy, d), weight_gradient_over_rows(axis, dd, dy, a)},
       .gather = Gather{dy.id}});
  builder.output(da);
  builder.output(dd);
  return builder.take();
}

}  // namespace commfuse

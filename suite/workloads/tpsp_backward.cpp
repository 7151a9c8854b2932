// SPDX-License-Identifier: Apache-2.0
// Backward of the linear layers, each alone.
#include "suite/workloads/phases.h"
#include "suite/workloads/tpsp.h"
#include "suite/workloads/tpsp_answers.h"
#include "suite/workloads/tpsp_backward_answers.h"
#include "suite/workloads/tpsp_inputs.h"

namespace commfuse {
Workload tpsp_ag_gemm_backward(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("tpsp/ag_gemm", shape, ranks);
  const Axis axis = token_axis(shape, ranks);
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
        own_tokens(tpsp_transpose(shape, TpspInput::xt), x.id, axis, rank),
        piece_of(tpsp_transpose(shape, TpspInput::down), u.all(), rank * features, 0)};
  });
  builder.answers([=](const Source& source, Portion) {
    return std::vector{gemm_rs_answers(partial.id, shape, ranks, source),
                       gradient_answer(du.id, tpsp_transpose(shape, TpspInput::a), features,
                                       sparse_x(shape), source)};
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
  const Axis axis = token_axis(shape, ranks);
  const std::int32_t features = shape.ffn / ranks;
  const Operand dy = builder.tensor("dY", shape.tokens, shape.hidden);
  const Operand a = builder.tensor("A", shape.tokens, features);
  const Operand d = builder.weight("D", shape.hidden, features);
  const Operand da = builder.tensor("dA", shape.tokens, features);
  const Operand dd = builder.gradient("dD", d);
  builder.inputs([=](std::int32_t rank) {
    return std::vector{own_tokens(tpsp_input(shape, TpspInput::x), dy.id, axis, rank),
                       piece_of(tpsp_transpose(shape, TpspInput::at), a.all(), 0, rank * features),
                       piece_of(tpsp_transpose(shape, TpspInput::up), d.all(), 0, rank * features)};
  });
  builder.answers([=](const Source& source, Portion) {
    return std::vector{ag_gemm_answers(da.id, shape, ranks, source),
                       gradient_answer(dd.id, tpsp_transpose(shape, TpspInput::x), 0,
                                       sparse_a(shape, ranks), source)};
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

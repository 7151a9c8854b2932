// SPDX-License-Identifier: Apache-2.0
// Backward of a whole MLP as Megatron-LM has it: the gradient of the input first, so that its
// reduce-scatter travels under the gradients of the weights; X, which sequence parallelism did not
// keep whole, is gathered again.
#include "suite/workloads/phases.h"
#include "suite/workloads/tpsp.h"
#include "suite/workloads/tpsp_backward_answers.h"
#include "suite/workloads/tpsp_inputs.h"

namespace commfuse {
namespace {

/// The saved H and the weight U: of SwiGLU the gate's part first.
struct UpOperands {
  Operand h, u;
};

std::vector<Fill> up_inputs(const Shape& shape, const UpOperands& up, std::int32_t features,
                            std::int32_t rank) {
  const auto saved = [&](TpspInput input, std::int32_t col) {
    View view = up.h.all();
    view.col = col;
    view.cols = features;
    return piece_of(tpsp_input(shape, input), view, 0, rank * features);
  };
  const auto weight = [&](TpspInput transposed, std::int32_t row) {
    return piece_of(tpsp_transpose(shape, transposed), up.u.rows(row, features), rank * features,
                    0);
  };
  if (shape.activation != Activation::swiglu) {
    return {saved(TpspInput::h, 0), weight(TpspInput::down, 0)};
  }
  return {saved(TpspInput::h_gate, 0), saved(TpspInput::h, features),
          weight(TpspInput::gate_down, 0), weight(TpspInput::down, features)};
}

}  // namespace

Workload tpsp_mlp_backward(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("tpsp/mlp", shape, ranks);
  const Axis axis = token_axis(shape, ranks);
  const std::int32_t features = shape.ffn / ranks;
  const std::int32_t stacked = (shape.activation == Activation::swiglu ? 2 : 1) * features;
  const Operand dy = builder.tensor("dY", shape.tokens, shape.hidden);
  const Operand x = builder.tensor("X", shape.tokens, shape.hidden);
  const Operand a = builder.tensor("A", shape.tokens, features);
  const UpOperands up{builder.tensor("H", shape.tokens, stacked),
                      builder.weight("U", stacked, shape.hidden)};
  const Operand d = builder.weight("D", shape.hidden, features);
  const Operand da = builder.tensor("dA", shape.tokens, features);
  const Operand dh = builder.tensor("dH", shape.tokens, stacked);
  const Operand partial = builder.tensor("partial", shape.tokens, shape.hidden);
  const Operand dx = builder.tensor("dX", axis.rows, shape.hidden);
  const Operand dd = builder.gradient("dD", d);
  const Operand du = builder.gradient("dU", up.u);
  builder.inputs([=](std::int32_t rank) {
    std::vector<Fill> fills = up_inputs(shape, up, features, rank);
    fills.push_back(own_tokens(tpsp_input(shape, TpspInput::x), dy.id, axis, rank));
    fills.push_back(own_tokens(tpsp_transpose(shape, TpspInput::xt), x.id, axis, rank));
    fills.push_back(piece_of(tpsp_transpose(shape, TpspInput::at), a.all(), 0, rank * features));
    fills.push_back(piece_of(tpsp_transpose(shape, TpspInput::up), d.all(), 0, rank * features));
    return fills;
  });
  builder.answers([=](const Source& source, Portion) {
    return std::vector{mlp_input_gradient(partial.id, shape, ranks, source),
                       gradient_answer(dd.id, tpsp_transpose(shape, TpspInput::x), 0,
                                       sparse_a(shape, ranks), source),
                       mlp_up_gradient(du.id, shape, ranks, source)};
  });
  builder.stage({.name = "dgrad",
                 .axis = axis,
                 .phases = {input_gradient(axis, da, dy, d),
                            activation_gradient(axis, shape.activation, dh, da, up.h),
                            last_input_gradient(axis, partial, dh, up.u)},
                 .gather = Gather{dy.id},
                 .reduce_scatter = ReduceScatter{partial.id, dx.id}});
  builder.stage(
      {.name = "wgrad_down", .axis = axis, .phases = {weight_gradient_over_rows(axis, dd, dy, a)}});
  builder.stage({.name = "wgrad_up",
                 .axis = axis,
                 .phases = {weight_gradient_over_rows(axis, du, dh, x)},
                 .gather = Gather{x.id}});
  builder.output(dx);
  builder.output(dd);
  builder.output(du);
  return builder.take();
}

}  // namespace commfuse

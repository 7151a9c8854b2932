// SPDX-License-Identifier: Apache-2.0
// Backward of a whole transformer layer, pre-norm. What the forward pass saved are inputs of their
// own. Weights are whole on every rank, and their gradients those of the own tokens: reducing these
// is data parallelism (dp.h).
//
// Gradients of weights lie where an exchange is under way: dWo and dD under what is left of dO, dU
// under what is left of dQ, and under dK and dV.
#include <string>
#include <utility>

#include "suite/workloads/gradient_phases.h"
#include "suite/workloads/layer_gradients.h"
#include "suite/workloads/phases.h"
#include "suite/workloads/ulysses.h"
#include "suite/workloads/ulysses_layer_gradients.h"

namespace commfuse {
namespace {

/// In addition to what the backward pass of a block has: dZ, Yn, Y, X, dYn, dXn and the gammas;
/// H, A and their gradients; the MLP's weights and their gradients.
WorkSize layer_backward_size(const Shape& shape, std::int32_t ranks) {
  const double tokens = shape.tokens;
  const double hidden = shape.hidden;
  const double width = (double{1} * shape.heads + shape.kv_heads) * shape.head_dim;
  const double ffn = 3.0 * shape.ffn;
  return {tokens / ranks * hidden * 2 * shape.ffn,
          9 * tokens * hidden + 8 * tokens * width + 4 * width * hidden * ranks + 2 * tokens * ffn +
              2 * hidden * ffn * ranks + 4 * hidden * ranks};
}

UlyssesLayerGradients add_layer_tensors(WorkloadBuilder& builder, const Shape& shape,
                                        const Axis& axis) {
  const auto own = [&](std::string name) {
    return builder.tensor(std::move(name), axis.rows, shape.hidden);
  };
  UlyssesLayerGradients layer;
  layer.dz = own("dZ");
  layer.yn = own("Yn");
  layer.y = own("Y");
  layer.x = own("X");
  layer.gamma_mlp = builder.weight("gamma_mlp", 1, shape.hidden);
  layer.gamma_attention = builder.weight("gamma_attention", 1, shape.hidden);
  layer.mlp = add_mlp_gradients(builder, shape, axis.rows, 1, "dYn");
  layer.block = block_gradients(builder, shape, axis, own("dY"), "Xn", TpspInput::xnt);
  layer.dx = own("dX");
  layer.dgamma_mlp = builder.tensor("dgamma_mlp", 1, shape.hidden);
  layer.dgamma_attention = builder.tensor("dgamma_attention", 1, shape.hidden);
  return layer;
}

std::vector<Fill> own_token_fills(const Shape& shape, const UlyssesLayerGradients& layer,
                                  const Axis& axis, std::int32_t rank) {
  const auto own = [&](const Fill& global, const Operand& rows) {
    return piece_of(global, rows.all(), rank * axis.rows, 0);
  };
  const auto whole_row = [&](TpspInput input, const Operand& gamma) {
    return piece_of(tpsp_input(shape, input), gamma.all(), 0, 0);
  };
  return {own(tpsp_input(shape, TpspInput::x), layer.dz),
          own(tpsp_transpose(shape, TpspInput::xt), layer.yn),
          own(tpsp_input(shape, kMlpNorm.x), layer.y),
          own(tpsp_input(shape, kAttentionNorm.x), layer.x),
          whole_row(kMlpNorm.gamma, layer.gamma_mlp),
          whole_row(kAttentionNorm.gamma, layer.gamma_attention)};
}

/// Of the own tokens, and no part of a sum over ranks.
Stage own_gamma_stage(std::string name, const Axis& own, const Operand& dgamma, const Operand& dn,
                      const Operand& x) {
  return {
      .name = std::move(name), .axis = own, .phases = {last_gamma_gradient(own, dgamma, dn, x)}};
}

}  // namespace

std::string ulysses_layer_backward_unsupported(const Shape& shape, std::int32_t ranks) {
  std::string reason = ulysses_backward_unsupported(shape, ranks);
  if (!reason.empty()) return reason;
  for (const auto& why :
       {unless_given("ffn", shape.ffn),
        unless_countable("tokens of a rank x hidden x 2 ffn", layer_backward_size(shape, ranks))}) {
    if (!why.empty()) return why;
  }
  return {};
}

Workload ulysses_layer_backward(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("ulysses/layer", shape, ranks);
  const Axis axis = sequence_axis(shape, ranks);
  const Axis own{.ranks = 1, .rows = axis.rows, .unit = axis.rows};  // whole: no sum over tiles
  const UlyssesLayerGradients layer = add_layer_tensors(builder, shape, axis);
  const auto& [out, attended, projections] = layer.block;
  const Operand dyn = layer.mlp.partial;
  builder.stage({.name = "mlp_dgrad",
                 .axis = own,
                 .phases = mlp_dgrad_phases(shape, own, layer.mlp, layer.dz)});
  builder.stage(through_norm("norm_mlp", axis, out.dy, dyn, layer.y, layer.gamma_mlp, layer.dz));
  add_out_gradients(builder, axis, out);
  builder.stage(mlp_wgrad_down(own, layer.mlp, layer.dz));
  builder.stage(own_gamma_stage("gamma_mlp", own, layer.dgamma_mlp, dyn, layer.y));
  add_attention_gradient(builder, shape, axis, attended);
  builder.stage(mlp_wgrad_up(own, layer.mlp, layer.yn, {}));
  add_projection_gradients(builder, axis, projections, received_gradients(attended));
  builder.stage(through_norm("norm_attention", axis, layer.dx, projections.dx, layer.x,
                             layer.gamma_attention, out.dy));
  builder.stage(
      own_gamma_stage("gamma_attention", own, layer.dgamma_attention, projections.dx, layer.x));
  builder.inputs([=](std::int32_t rank) {
    std::vector<Fill> fills = own_token_fills(shape, layer, axis, rank);
    const MlpPlace place{.token = rank * axis.rows, .feature = 0};
    for (const auto& more : {mlp_gradient_inputs(shape, layer.mlp, place),
                             block_gradient_inputs(shape, layer.block, axis, saved_heads, rank)}) {
      fills.insert(fills.end(), more.begin(), more.end());
    }
    return fills;
  });
  builder.answers([=](const Source& source, Portion portion) {
    return ulysses_layer_gradient_answers(shape, layer, axis, source, portion);
  });
  for (const Operand& made :
       {layer.dx, layer.mlp.dd, layer.mlp.du, layer.dgamma_mlp, out.dwo, projections.dwq,
        projections.dwk, projections.dwv, layer.dgamma_attention}) {
    builder.output(made);
  }
  builder.whole_layer(Pass::backward);
  return builder.take();
}

}  // namespace commfuse

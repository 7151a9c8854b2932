// SPDX-License-Identifier: Apache-2.0
// Backward of a whole transformer layer, pre-norm: Y = X + attention(norm(X)), Z = Y +
// mlp(norm(Y)). What the forward pass saved are inputs of their own: of what was gathered then (the
// results of the norms) the own tokens alone, which are gathered again.
//
// A gradient of a weight needs nothing that is still to come, and nothing waits for it; so each
// lies where a transfer is under way: dD under the last of what is reduced to dYn, dU under the
// first of what is gathered of dY, dWo under the last of what is reduced to dXn, dWqkv under the
// sum of gamma's gradient.
#include <utility>

#include "suite/workloads/gradient_phases.h"
#include "suite/workloads/layer_gradients.h"
#include "suite/workloads/tpsp.h"
#include "suite/workloads/tpsp_inputs.h"
#include "suite/workloads/tpsp_layer_gradients.h"

namespace commfuse {
namespace {

/// Features of each kind that a rank has.
struct QkvWidths {
  std::int32_t q, kv;
  [[nodiscard]] std::int32_t qkv() const { return q + 2 * kv; }
};

LayerGradients add_layer_tensors(WorkloadBuilder& builder, const Shape& shape, const Axis& axis,
                                 const QkvWidths& widths) {
  const auto every_token = [&](std::string name, std::int32_t cols) {
    return builder.tensor(std::move(name), shape.tokens, cols);
  };
  const auto own = [&](std::string name) {
    return builder.tensor(std::move(name), axis.rows, shape.hidden);
  };
  const auto gamma = [&](std::string name) {
    return builder.tensor(std::move(name), 1, shape.hidden);
  };
  LayerGradients layer;
  layer.dz = every_token("dZ", shape.hidden);
  layer.yn = every_token("Yn", shape.hidden);
  layer.y = own("Y");
  layer.qkv = every_token("QKV", widths.qkv());
  layer.o = every_token("O", widths.q);
  layer.xn = every_token("Xn", shape.hidden);
  layer.x = own("X");
  layer.mlp = add_mlp_gradients(builder, shape, shape.tokens, axis.ranks, "mlp_partial");
  layer.gamma_mlp = builder.weight("gamma_mlp", 1, shape.hidden);
  layer.wo = builder.weight("Wo", shape.hidden, widths.q);
  layer.wqkv = builder.weight("Wqkv", widths.qkv(), shape.hidden);
  layer.gamma_attention = builder.weight("gamma_attention", 1, shape.hidden);
  layer.dyn = own("dYn");
  layer.dy = every_token("dY", shape.hidden);
  layer.d_o = every_token("dO", widths.q);
  layer.dqkv = every_token("dQKV", widths.qkv());
  layer.attention_partial = every_token("attention_partial", shape.hidden);
  layer.dxn = own("dXn");
  layer.dx = own("dX");
  layer.dwo = builder.gradient("dWo", layer.wo);
  layer.dwqkv = builder.gradient("dWqkv", layer.wqkv);
  layer.gamma_mlp_partial = gamma("dgamma_mlp_partial");
  layer.dgamma_mlp = gamma("dgamma_mlp");
  layer.gamma_attention_partial = gamma("dgamma_attention_partial");
  layer.dgamma_attention = gamma("dgamma_attention");
  return layer;
}

/// Projections with the weights of the attention half transposed, as their gradients sum them.
std::vector<Fill> attention_fills(const Shape& shape, const LayerGradients& layer,
                                  const QkvWidths& widths, std::int32_t rank) {
  const auto [q, kv] = widths;
  std::vector<Fill> fills{
      piece_of(tpsp_transpose(shape, TpspInput::ot), layer.o.all(), 0, rank * q),
      piece_of(tpsp_transpose(shape, TpspInput::wq), layer.wo.all(), 0, rank * q)};
  const auto add = [&](TpspInput saved, TpspInput weight, std::int32_t first, std::int32_t count) {
    fills.push_back(piece_of(saved_heads(shape, saved), layer.qkv.columns(first, count).all(), 0,
                             rank * count));
    fills.push_back(
        piece_of(tpsp_transpose(shape, weight), layer.wqkv.rows(first, count), rank * count, 0));
  };
  add(TpspInput::q, TpspInput::out, 0, q);
  add(TpspInput::k, TpspInput::wkt, q, kv);
  add(TpspInput::v, TpspInput::wvt, q + kv, kv);
  return fills;
}

std::vector<Fill> token_fills(const Shape& shape, const LayerGradients& layer, const Axis& axis,
                              std::int32_t rank) {
  const auto own = [&](TpspInput input, const Operand& rows) {
    return piece_of(tpsp_input(shape, input), rows.all(), rank * axis.rows, 0);
  };
  const auto whole_row = [&](TpspInput input, const Operand& gamma) {
    return piece_of(tpsp_input(shape, input), gamma.all(), 0, 0);
  };
  return {own_tokens(tpsp_input(shape, TpspInput::x), layer.dz.id, axis, rank),
          own_tokens(tpsp_transpose(shape, TpspInput::xt), layer.yn.id, axis, rank),
          own_tokens(tpsp_transpose(shape, TpspInput::xnt), layer.xn.id, axis, rank),
          own(TpspInput::norm_mlp, layer.y),
          own(TpspInput::norm_attention, layer.x),
          whole_row(TpspInput::gamma_mlp, layer.gamma_mlp),
          whole_row(TpspInput::gamma_attention, layer.gamma_attention)};
}

/// gather dY; dO = dY Wo and the gradient of attention, a tile of queries after the other; then
/// what they leave of dK and dV is rounded to the dtype, and dQKV Wqkv reduced.
void add_attention_stages(WorkloadBuilder& builder, const Shape& shape, const Axis& axis,
                          const LayerGradients& layer, const QkvWidths& widths) {
  const auto [q, kv] = widths;
  const bool narrow = is_narrow(shape.dtype);
  const Operand stacked = layer.dqkv.columns(q, 2 * kv);
  Operand sums = stacked;
  if (narrow) {
    sums = builder.gradient("dKV", {0, {{}, shape.tokens, 2 * kv}}).columns(0, 2 * kv);
  }
  const std::int32_t first = sums.cut->first;
  builder.stage({.name = "attention",
                 .axis = axis,
                 .phases = {input_gradient(axis, layer.d_o, layer.dy, layer.wo),
                            attention_gradient(axis, own_heads(shape, axis.ranks),
                                               {.dq = layer.dqkv.columns(0, q),
                                                .dk = sums.columns(first, kv),
                                                .dv = sums.columns(first + kv, kv),
                                                .d_o = layer.d_o,
                                                .q = layer.qkv.columns(0, q),
                                                .k = layer.qkv.columns(q, kv),
                                                .v = layer.qkv.columns(q + kv, kv)})},
                 .gather = Gather{layer.dy.id}});
  Stage dgrad{
      .name = "qkv_dgrad",
      .axis = axis,
      .phases = {last_input_gradient(axis, layer.attention_partial, layer.dqkv, layer.wqkv)},
      .reduce_scatter = ReduceScatter{layer.attention_partial.id, layer.dxn.id}};
  if (narrow) dgrad.phases.insert(dgrad.phases.begin(), rounded(axis, stacked, sums));
  builder.stage(std::move(dgrad));
}

Stage gamma_stage(std::string name, const Axis& axis, const Operand& partial, const Operand& result,
                  const Operand& dn, const Operand& x) {
  return {.name = std::move(name),
          .axis = axis,
          .phases = {last_gamma_gradient(axis, partial, dn, x)},
          .all_reduce = AllReduce{partial.id, result.id},
          .own_slice = true};
}

}  // namespace

Workload tpsp_layer_backward(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("tpsp/layer", shape, ranks);
  const Axis axis = sequence_axis(shape, ranks);
  const QkvWidths widths{.q = shape.heads / ranks * shape.head_dim,
                         .kv = shape.kv_heads / ranks * shape.head_dim};
  const LayerGradients layer = add_layer_tensors(builder, shape, axis, widths);
  builder.stage(mlp_dgrad(shape, axis, layer.mlp, layer.dz, layer.dyn));
  builder.stage(mlp_wgrad_down(axis, layer.mlp, layer.dz));
  builder.stage(
      through_norm("norm_mlp", axis, layer.dy, layer.dyn, layer.y, layer.gamma_mlp, layer.dz));
  builder.stage(gamma_stage("gamma_mlp", axis, layer.gamma_mlp_partial, layer.dgamma_mlp, layer.dyn,
                            layer.y));
  builder.stage(mlp_wgrad_up(axis, layer.mlp, layer.yn, Gather{layer.yn.id}));
  add_attention_stages(builder, shape, axis, layer, widths);
  builder.stage({.name = "wgrad_out",
                 .axis = axis,
                 .phases = {weight_gradient_over_rows(axis, layer.dwo, layer.dy, layer.o)}});
  builder.stage(through_norm("norm_attention", axis, layer.dx, layer.dxn, layer.x,
                             layer.gamma_attention, layer.dy));
  builder.stage(gamma_stage("gamma_attention", axis, layer.gamma_attention_partial,
                            layer.dgamma_attention, layer.dxn, layer.x));
  builder.stage({.name = "wgrad_qkv",
                 .axis = axis,
                 .phases = {weight_gradient_over_rows(axis, layer.dwqkv, layer.dqkv, layer.xn)},
                 .gather = Gather{layer.xn.id}});
  builder.inputs([=](std::int32_t rank) {
    std::vector<Fill> fills = token_fills(shape, layer, axis, rank);
    for (const Fill& fill : mlp_gradient_inputs(shape, layer.mlp, features_of(layer.mlp, rank)))
      fills.push_back(fill);
    for (const Fill& fill : attention_fills(shape, layer, widths, rank)) fills.push_back(fill);
    return fills;
  });
  builder.answers([=](const Source& source, Portion portion) {
    return layer_gradient_answers(shape, layer, axis, source, portion);
  });
  for (const Operand& made : {layer.dx, layer.mlp.dd, layer.mlp.du, layer.dgamma_mlp, layer.dwo,
                              layer.dwqkv, layer.dgamma_attention}) {
    builder.output(made);
  }
  builder.whole_layer(Pass::backward);
  return builder.take();
}

}  // namespace commfuse

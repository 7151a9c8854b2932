// SPDX-License-Identifier: Apache-2.0
// A whole transformer layer, pre-norm. Norms and residuals work on the own tokens between a
// reduce-scatter and the next gather, so a part of the own slice can leave as soon as it is
// reduced, added and normed. The fused QKV weight of a rank is its query heads, then its key heads,
// then its value heads; attention reads them as runs of columns.
#include <algorithm>

#include "suite/workloads/layer_answers.h"
#include "suite/workloads/phases.h"
#include "suite/workloads/tpsp.h"
#include "suite/workloads/tpsp_inputs.h"
#include "suite/workloads/tpsp_layer_answers.h"

namespace commfuse {
namespace {

double qkv_features(const Shape& shape) {
  return (double{1} * shape.heads + 2.0 * shape.kv_heads) * shape.head_dim;
}

/// Ten tensors of tokens x hidden at the most (X, Y, Z, both norms, partials and results); QKV, O;
/// H, A; the weights.
WorkSize layer_size(const Shape& shape) {
  const double tokens = shape.tokens;
  const double hidden = shape.hidden;
  const double width = 2 * qkv_features(shape);
  const double ffn = 3.0 * shape.ffn;
  return {tokens * std::max({tokens, hidden}) * std::max(width, ffn),
          10 * tokens * hidden + (tokens + hidden) * (width + ffn)};
}

/// Features of each kind that a rank has.
struct Widths {
  std::int32_t q, kv, ffn;
};

Widths widths_of(const Shape& shape, std::int32_t ranks) {
  return {.q = shape.heads / ranks * shape.head_dim,
          .kv = shape.kv_heads / ranks * shape.head_dim,
          .ffn = shape.ffn / ranks};
}

struct LayerWeights {
  Operand gamma_attention, qkv, out, gamma_mlp, up, down;
};

LayerWeights add_weights(WorkloadBuilder& builder, const Shape& shape, const Widths& widths) {
  const bool gated = shape.activation == Activation::swiglu;
  return {.gamma_attention = builder.weight("gamma_attention", 1, shape.hidden),
          .qkv = builder.weight("Wqkv", widths.q + 2 * widths.kv, shape.hidden),
          .out = builder.weight("Wo", shape.hidden, widths.q),
          .gamma_mlp = builder.weight("gamma_mlp", 1, shape.hidden),
          .up = builder.weight("U", (gated ? 2 : 1) * widths.ffn, shape.hidden),
          .down = builder.weight("D", shape.hidden, widths.ffn)};
}

std::vector<Fill> weight_fills(const Shape& shape, const LayerWeights& weights,
                               const Widths& widths, std::int32_t rank) {
  const LayerInputs inputs = layer_inputs(shape);
  const auto [q, kv, ffn] = widths;
  // The rank's run of a global weight's output features, at `row` of its tensor; or of its columns.
  const auto features = [&](const Fill& global, const Operand& w, std::int32_t row,
                            std::int32_t count) {
    return piece_of(global, w.rows(row, count), rank * count, 0);
  };
  const auto columns = [&](const Fill& global, const Operand& w) {
    return piece_of(global, w.all(), 0, rank * w.tensor.cols);
  };
  const bool gated = shape.activation == Activation::swiglu;
  std::vector<Fill> fills{piece_of(inputs.gamma_attention, weights.gamma_attention.all(), 0, 0),
                          features(inputs.projections.q, weights.qkv, 0, q),
                          features(inputs.projections.k, weights.qkv, q, kv),
                          features(inputs.projections.v, weights.qkv, q + kv, kv),
                          columns(inputs.out, weights.out),
                          piece_of(inputs.gamma_mlp, weights.gamma_mlp.all(), 0, 0),
                          features(inputs.mlp.up, weights.up, gated ? ffn : 0, ffn),
                          columns(inputs.mlp.down, weights.down)};
  if (gated) fills.push_back(features(inputs.mlp.gate, weights.up, 0, ffn));
  return fills;
}

/// The stages qkv and attention: from norm(X), gathered, to the own tokens' result.
void add_attention_half(WorkloadBuilder& builder, const Shape& shape, const Axis& axis,
                        const LayerOperands& between, const LayerWeights& weights,
                        const Widths& widths) {
  const auto [q, kv, ffn] = widths;
  const Operand qkv = builder.tensor("QKV", shape.tokens, q + 2 * kv);
  const Operand o = builder.tensor("O", shape.tokens, q);
  builder.stage({.name = "qkv",
                 .axis = axis,
                 .phases = {last_linear(axis, qkv, between.xn, weights.qkv)},
                 .gather = Gather{between.xn.id}});
  builder.stage(
      {.name = "attention",
       .axis = axis,
       .phases = {attention(axis, own_heads(shape, axis.ranks), o, qkv.columns(0, q),
                            qkv.columns(q, kv), qkv.columns(q + kv, kv)),
                  last_linear(axis, between.attended, o, weights.out)},
       .reduce_scatter = ReduceScatter{between.attended.id, between.attention_result.id}});
}

/// The stage mlp: from norm(Y), gathered, to the own tokens' result.
void add_mlp_half(WorkloadBuilder& builder, const Shape& shape, const Axis& axis,
                  const LayerOperands& between, const LayerWeights& weights, const Widths& widths) {
  const Operand h = builder.tensor("H", shape.tokens, weights.up.tensor.rows);
  const Operand a = builder.tensor("A", shape.tokens, widths.ffn);
  builder.stage(
      {.name = "mlp",
       .axis = axis,
       .phases = {linear(axis, h, between.yn, weights.up), activation(axis, shape.activation, a, h),
                  last_linear(axis, between.mlp, a, weights.down)},
       .gather = Gather{between.yn.id},
       .reduce_scatter = ReduceScatter{between.mlp.id, between.mlp_result.id}});
}

}  // namespace

std::string tpsp_layer_unsupported(const Shape& shape, std::int32_t ranks) {
  for (const auto& reason : {unless_one_layer(shape), unless_given("tokens", shape.tokens),
                             unless_given("heads", shape.heads), unless_given("ffn", shape.ffn)}) {
    if (!reason.empty()) return reason;
  }
  for (const auto& reason :
       {unless_divisible("tokens", shape.tokens, ranks),
        unless_divisible("heads", shape.heads, ranks),
        unless_divisible("kv_heads", shape.kv_heads, ranks),
        unless_divisible("ffn", shape.ffn, ranks), unless_pairs(shape, ranks),
        unless_below("(heads + 2 kv_heads) x head_dim", qkv_features(shape), 31),
        unless_countable("tokens x max(tokens, hidden) x max(2 (heads + 2 kv_heads) x head_dim, 3 "
                         "ffn)",
                         layer_size(shape))}) {
    if (!reason.empty()) return reason;
  }
  return {};
}

Workload tpsp_layer(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("tpsp/layer", shape, ranks);
  const Axis axis = sequence_axis(shape, ranks);
  const Widths widths = widths_of(shape, ranks);
  const auto every_token = [&](std::string name) {
    return builder.tensor(std::move(name), shape.tokens, shape.hidden);
  };
  const auto own_tokens = [&](std::string name) {
    return builder.tensor(std::move(name), axis.rows, shape.hidden);
  };
  const Operand x = own_tokens("X");
  const Operand y = own_tokens("Y");
  const LayerOperands between{.xn = every_token("Xn"),
                              .attended = every_token("attention_partial"),
                              .attention_result = own_tokens("attention_result"),
                              .yn = every_token("Yn"),
                              .mlp = every_token("mlp_partial"),
                              .mlp_result = own_tokens("mlp_result"),
                              .z = own_tokens("Z")};
  const LayerWeights weights = add_weights(builder, shape, widths);
  builder.stage({.name = "norm",
                 .axis = axis,
                 .phases = {norm(axis, between.xn, x, weights.gamma_attention)},
                 .own_slice = true});
  add_attention_half(builder, shape, axis, between, weights, widths);
  builder.stage({.name = "add_norm",
                 .axis = axis,
                 .phases = {residual(axis, y, x, between.attention_result),
                            norm(axis, between.yn, y, weights.gamma_mlp)},
                 .own_slice = true});
  add_mlp_half(builder, shape, axis, between, weights, widths);
  builder.stage({.name = "add",
                 .axis = axis,
                 .phases = {residual(axis, between.z, y, between.mlp_result)},
                 .own_slice = true});
  builder.inputs([=](std::int32_t rank) {
    std::vector<Fill> fills = weight_fills(shape, weights, widths, rank);
    fills.push_back(piece_of(tpsp_input(shape, TpspInput::x), x.all(), rank * axis.rows, 0));
    return fills;
  });
  builder.answers([=](const Source& source, Portion portion) {
    if (portion == Portion::compute_only) {
      return layer_stand_in_answers(shape, between, axis, source);
    }
    return std::vector{layer_answer(shape, between.z.id, axis, ranks, source)};
  });
  builder.output(between.z);
  builder.whole_layer(Pass::forward);
  return builder.take();
}

}  // namespace commfuse

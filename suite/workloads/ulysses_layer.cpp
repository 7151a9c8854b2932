// SPDX-License-Identifier: Apache-2.0
// A whole transformer layer, pre-norm. All but attention works on the own tokens with whole
// weights: nothing there waits for a part of anything, so the MLP runs whole.
#include <algorithm>

#include "suite/workloads/layer_answers.h"
#include "suite/workloads/phases.h"
#include "suite/workloads/tpsp_inputs.h"
#include "suite/workloads/ulysses.h"
#include "suite/workloads/ulysses_stages.h"

namespace commfuse {
namespace {

using RowNumbers = std::span<const std::int32_t>;

/// X, Xn, the projection, Y, Yn, the MLP's result and Z; H and A; its weights. In addition to what
/// a block has.
WorkSize mlp_part_size(const Shape& shape, std::int32_t ranks) {
  const double tokens = shape.tokens;
  const double hidden = shape.hidden;
  const double ffn = 3.0 * shape.ffn;
  return {tokens / ranks * hidden * 2 * shape.ffn,
          7 * tokens * hidden + tokens * ffn + hidden * ffn * ranks};
}

/// The MLP of the own tokens.
struct LocalMlp {
  Operand gamma, up, down, h, a, result;
};

LocalMlp add_mlp_operands(WorkloadBuilder& builder, const Shape& shape, std::int32_t rows) {
  const std::int32_t stacked = (shape.activation == Activation::swiglu ? 2 : 1) * shape.ffn;
  return {.gamma = builder.weight("gamma_mlp", 1, shape.hidden),
          .up = builder.weight("U", stacked, shape.hidden),
          .down = builder.weight("D", shape.hidden, shape.ffn),
          .h = builder.tensor("H", rows, stacked),
          .a = builder.tensor("A", rows, shape.ffn),
          .result = builder.tensor("mlp_result", rows, shape.hidden)};
}

std::vector<Fill> mlp_fills(const Shape& shape, const LocalMlp& mlp) {
  const bool gated = shape.activation == Activation::swiglu;
  const LayerInputs inputs = layer_inputs(shape);
  std::vector<Fill> fills{
      piece_of(inputs.gamma_mlp, mlp.gamma.all(), 0, 0),
      piece_of(inputs.mlp.up, mlp.up.rows(gated ? shape.ffn : 0, shape.ffn), 0, 0),
      piece_of(inputs.mlp.down, mlp.down.all(), 0, 0)};
  if (gated) fills.push_back(piece_of(inputs.mlp.gate, mlp.up.rows(0, shape.ffn), 0, 0));
  return fills;
}

/// Z where nothing was exchanged: from the projection of stand-ins.
Answers stand_in_layer(const Shape& shape, const Operand& z, const Operand& o, const Axis& axis,
                       const Source& source) {
  return {.tensor = z.id,
          .rows = [=, projected = stand_in_out(shape, layer_inputs(shape).out, z.id, o, axis,
                                               source)](Range asked, RowNumbers rows) {
            const Rows x = input_tokens(shape, source)(tokens_of(axis, asked.first, rows));
            const Rows y = residual(x, projected.rows(asked, rows), shape.dtype);
            return with_mlp(shape, y, 1, source);
          }};
}

}  // namespace

std::string ulysses_layer_unsupported(const Shape& shape, std::int32_t ranks) {
  std::string reason = ulysses_unsupported(shape, ranks);
  if (!reason.empty()) return reason;
  for (const auto& why :
       {unless_given("ffn", shape.ffn),
        unless_countable("tokens of a rank x hidden x 2 ffn", mlp_part_size(shape, ranks))}) {
    if (!why.empty()) return why;
  }
  return {};
}

Workload ulysses_layer(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("ulysses/layer", shape, ranks);
  const Axis axis = sequence_axis(shape, ranks);
  const Axis own{.ranks = 1, .rows = axis.rows};
  const std::int32_t width = shape.heads * shape.head_dim;
  const auto own_tokens = [&](std::string name) {
    return builder.tensor(std::move(name), axis.rows, shape.hidden);
  };
  const Operand x = own_tokens("X");
  const Operand gamma = builder.weight("gamma_attention", 1, shape.hidden);
  const Operand xn = own_tokens("Xn");
  builder.stage(
      {.name = "norm", .axis = axis, .phases = {norm(axis, xn, x, gamma)}, .own_slice = true});
  const Projections projections = add_projections(builder, shape, axis, xn);
  const AttentionOperands attended{projections.q.receive, projections.k.receive,
                                   projections.v.receive,
                                   exchanged(builder, "O", axis, width / ranks)};
  add_attention(builder, shape, axis, attended, Pieces{attended.q.id});
  const Operand wo = builder.weight("Wo", shape.hidden, width);
  const Operand projected = own_tokens("attention_result");
  add_out_projection(builder, axis, projected, attended.o.receive, wo);
  const Operand y = own_tokens("Y");
  const Operand yn = own_tokens("Yn");
  const Operand z = own_tokens("Z");
  const LocalMlp mlp = add_mlp_operands(builder, shape, axis.rows);
  builder.stage({.name = "add_norm",
                 .axis = axis,
                 .phases = {residual(axis, y, x, projected), norm(axis, yn, y, mlp.gamma)},
                 .own_slice = true});
  builder.stage(
      {.name = "mlp",
       .axis = own,
       .phases = {linear(own, mlp.h, yn, mlp.up), activation(own, shape.activation, mlp.a, mlp.h),
                  linear(own, mlp.result, mlp.a, mlp.down), residual(own, z, y, mlp.result)}});
  builder.inputs([=](std::int32_t rank) {
    const LayerInputs inputs = layer_inputs(shape);
    std::vector<Fill> fills = weight_inputs(inputs.projections, projections);
    for (const Fill& fill : mlp_fills(shape, mlp)) fills.push_back(fill);
    fills.push_back(piece_of(inputs.gamma_attention, gamma.all(), 0, 0));
    fills.push_back(piece_of(inputs.out, wo.all(), 0, 0));
    fills.push_back(piece_of(tpsp_input(shape, TpspInput::x), x.all(), rank * axis.rows, 0));
    return fills;
  });
  builder.answers([=](const Source& source, Portion portion) {
    if (portion == Portion::schedule) {
      return std::vector{layer_answer(shape, z.id, axis, 1, source)};
    }
    std::vector<Answers> answers =
        projection_answers(shape, projections, layer_inputs(shape).projections,
                           attention_norm(shape, source), false, ranks, source);
    answers.push_back(stand_in_attention(shape, attended, ranks, source));
    answers.push_back(stand_in_layer(shape, z, attended.o.receive, axis, source));
    return answers;
  });
  builder.output(z);
  builder.whole_layer(Pass::forward);
  return builder.take();
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/ulysses.h"

#include <algorithm>

#include "suite/workloads/phases.h"
#include "suite/workloads/tpsp_inputs.h"
#include "suite/workloads/ulysses_answers.h"
#include "suite/workloads/ulysses_stages.h"

namespace commfuse {
namespace {

double head_columns(const Shape& shape) {
  return (double{1} * shape.heads + shape.kv_heads) * shape.head_dim;
}

/// X; Wq, Wk, Wv and Wo; Q, K, V and O, sent and received; Y.
WorkSize block_size(const Shape& shape, std::int32_t ranks) {
  const double tokens = shape.tokens;
  const double hidden = shape.hidden;
  const double width = head_columns(shape);
  return {tokens * std::max(tokens, hidden) * width,
          2 * tokens * hidden + 4 * tokens * width + 2 * width * hidden * ranks};
}

/// X of the own tokens, and the weights of its projections.
std::vector<Fill> block_inputs(const Shape& shape, const Operand& x, const Projections& operands,
                               std::int32_t rank) {
  std::vector<Fill> fills = weight_inputs(projection_weights(shape), operands);
  fills.push_back(piece_of(tpsp_input(shape, TpspInput::x), x.all(), rank * x.tensor.rows, 0));
  return fills;
}

std::vector<Answers> block_answers(const Shape& shape, const Projections& operands,
                                   std::int32_t ranks, const Source& source) {
  return projection_answers(shape, operands, projection_weights(shape), input_tokens(shape, source),
                            true, ranks, source);
}

}  // namespace

std::string ulysses_unsupported(const Shape& shape, std::int32_t ranks) {
  for (const auto& reason : {unless_one_layer(shape), unless_given("tokens", shape.tokens),
                             unless_given("heads", shape.heads)}) {
    if (!reason.empty()) return reason;
  }
  for (const auto& reason :
       {unless_divisible("tokens", shape.tokens, ranks),
        unless_divisible("heads", shape.heads, ranks),
        unless_divisible("kv_heads", shape.kv_heads, ranks), unless_pairs(shape, ranks),
        unless_below("(heads + kv_heads) x head_dim", head_columns(shape), 31),
        unless_countable("tokens x max(tokens, hidden) x (heads + kv_heads) x head_dim",
                         block_size(shape, ranks))}) {
    if (!reason.empty()) return reason;
  }
  return {};
}

Workload ulysses_qkv(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("ulysses/qkv", shape, ranks);
  const Axis axis = sequence_axis(shape, ranks);
  const Operand x = builder.tensor("X", axis.rows, shape.hidden);
  const Projections operands = add_projections(builder, shape, axis, x);
  builder.inputs([=](std::int32_t rank) { return block_inputs(shape, x, operands, rank); });
  builder.answers(
      [=](const Source& source, Portion) { return block_answers(shape, operands, ranks, source); });
  builder.output(operands.k.receive);
  builder.output(operands.v.receive);
  builder.output(operands.q.receive);
  return builder.take();
}

Workload ulysses_attention(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("ulysses/attention", shape, ranks);
  const Axis axis = sequence_axis(shape, ranks);
  const std::int32_t width = shape.heads * shape.head_dim / ranks;
  const std::int32_t kv_width = shape.kv_heads * shape.head_dim / ranks;
  AttentionOperands operands;
  operands.q = builder.tensor("Q", shape.tokens, width);
  operands.k = builder.tensor("K", shape.tokens, kv_width);
  operands.v = builder.tensor("V", shape.tokens, kv_width);
  operands.o = exchanged(builder, "O", axis, width);
  builder.inputs([=](std::int32_t rank) {
    return std::vector{tpsp_columns(shape, TpspInput::q, operands.q.all(), rank),
                       tpsp_columns(shape, TpspInput::k, operands.k.all(), rank),
                       tpsp_columns(shape, TpspInput::v, operands.v.all(), rank)};
  });
  builder.answers([=](const Source& source, Portion) {
    const bool one_hot = code_columns(shape.tokens) <= shape.head_dim;
    return std::vector{attention_answer(shape, operands.o.send.id, ranks, one_hot,
                                        attention_inputs(shape, source))};
  });
  add_attention(builder, shape, axis, operands, {});
  builder.output(operands.o.receive);
  return builder.take();
}

Workload ulysses_block(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("ulysses/block", shape, ranks);
  const Axis axis = sequence_axis(shape, ranks);
  const std::int32_t width = shape.heads * shape.head_dim;
  const Operand x = builder.tensor("X", axis.rows, shape.hidden);
  const Projections projections = add_projections(builder, shape, axis, x);
  const AttentionOperands attended{projections.q.receive, projections.k.receive,
                                   projections.v.receive,
                                   exchanged(builder, "O", axis, width / ranks)};
  add_attention(builder, shape, axis, attended, Pieces{attended.q.id});
  const Operand wo = builder.weight("Wo", shape.hidden, width);
  const Operand y = builder.tensor("Y", axis.rows, shape.hidden);
  add_out_projection(builder, axis, y, attended.o.receive, wo);
  builder.inputs([=](std::int32_t rank) {
    std::vector<Fill> fills = block_inputs(shape, x, projections, rank);
    fills.push_back(piece_of(tpsp_input(shape, TpspInput::out), wo.all(), 0, 0));
    return fills;
  });
  builder.answers([=](const Source& source, Portion portion) {
    if (portion == Portion::schedule) return std::vector{out_answer(shape, y.id, axis, source)};
    std::vector<Answers> answers = block_answers(shape, projections, ranks, source);
    answers.push_back(stand_in_attention(shape, attended, ranks, source));
    answers.push_back(stand_in_out(shape, tpsp_input(shape, TpspInput::out), y.id,
                                   attended.o.receive, axis, source));
    return answers;
  });
  builder.output(y);
  return builder.take();
}

}  // namespace commfuse

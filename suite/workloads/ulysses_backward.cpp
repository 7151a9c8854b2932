// SPDX-License-Identifier: Apache-2.0
// Backward passes of ulysses: the exchanges of the forward pass the other way round. Saved
// activations are given.
#include <algorithm>

#include "suite/workloads/phases.h"
#include "suite/workloads/tpsp_inputs.h"
#include "suite/workloads/ulysses.h"
#include "suite/workloads/ulysses_attention_gradient.h"
#include "suite/workloads/ulysses_backward_answers.h"
#include "suite/workloads/ulysses_backward_stages.h"
#include "suite/workloads/ulysses_block_gradients.h"

namespace commfuse {
namespace {

/// Of the whole block: X, dX and dY; Q, K, V and O, and their gradients, sent and received; the
/// four weights and their gradients.
WorkSize backward_size(const Shape& shape, std::int32_t ranks) {
  const double tokens = shape.tokens;
  const double hidden = shape.hidden;
  const double width = (double{1} * shape.heads + shape.kv_heads) * shape.head_dim;
  return {tokens * std::max(tokens, hidden) * width,
          3 * tokens * hidden + 8 * tokens * width + 4 * width * hidden * ranks};
}

}  // namespace

std::string ulysses_backward_unsupported(const Shape& shape, std::int32_t ranks) {
  std::string reason = ulysses_unsupported(shape, ranks);
  if (!reason.empty()) return reason;
  return unless_countable("tokens x max(tokens, hidden) x (heads + kv_heads) x head_dim",
                          backward_size(shape, ranks));
}

Workload ulysses_qkv_backward(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("ulysses/qkv", shape, ranks);
  const Axis axis = sequence_axis(shape, ranks);
  const std::int32_t width = shape.heads * shape.head_dim / ranks;
  const std::int32_t kv_width = shape.kv_heads * shape.head_dim / ranks;
  const Exchanged dq = exchanged(builder, "dQ", axis, width);
  const Exchanged dk = exchanged(builder, "dK", axis, kv_width);
  const Exchanged dv = exchanged(builder, "dV", axis, kv_width);
  const ReceivedGradients received{dq.receive, dk.receive, dv.receive};
  const ProjectionGradients operands =
      projection_gradients(builder, shape, axis, "X", TpspInput::xt);
  builder.inputs([=](std::int32_t rank) {
    std::vector<Fill> fills = projection_gradient_inputs(shape, operands, axis, rank);
    fills.push_back(tpsp_columns(shape, TpspInput::dq, dq.send.all(), rank));
    fills.push_back(tpsp_columns(shape, TpspInput::dk, dk.send.all(), rank));
    fills.push_back(tpsp_columns(shape, TpspInput::dv, dv.send.all(), rank));
    return fills;
  });
  builder.answers([=](const Source& source, Portion portion) {
    const SentGradients gradients = portion == Portion::schedule
                                        ? given_gradients(shape, axis, source)
                                        : stand_in_gradients(received, axis, source);
    return projection_gradient_answers(shape, operands, axis, true, gradients, source);
  });
  add_exchange(builder, "dq", axis, dq);
  add_exchange(builder, "dk", axis, dk);
  add_exchange(builder, "dv", axis, dv);
  add_projection_gradients(builder, axis, operands, received);
  add_projection_outputs(builder, operands);
  return builder.take();
}

Workload ulysses_attention_backward(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("ulysses/attention", shape, ranks);
  const Axis axis = sequence_axis(shape, ranks);
  const Exchanged d_o = exchanged(builder, "dO", axis, shape.heads * shape.head_dim / ranks);
  const ExchangedGradients operands =
      attention_gradient_operands(builder, shape, axis, d_o.receive);
  builder.inputs([=](std::int32_t rank) {
    std::vector<Fill> fills = attention_gradient_inputs(shape, operands, tpsp_input, rank);
    for (const Fill& fill : token_blocks(tpsp_input(shape, TpspInput::d_o), d_o.send, axis, rank)) {
      fills.push_back(fill);
    }
    return fills;
  });
  builder.answers([=](const Source& source, Portion portion) {
    const OutputGradients reaching =
        portion == Portion::schedule ? given_output_gradients(shape, source)
                                     : stand_in_output_gradients(d_o.receive, shape, ranks, source);
    return attention_gradient_answers(
        operands, axis, attended_gradients(shape, axis, attention_inputs(shape, source), reaching));
  });
  add_exchange(builder, "do", axis, d_o);
  add_attention_gradient(builder, shape, axis, operands);
  builder.output(operands.dq.receive);
  builder.output(operands.dk.receive);
  builder.output(operands.dv.receive);
  return builder.take();
}

Workload ulysses_block_backward(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("ulysses/block", shape, ranks);
  const Axis axis = sequence_axis(shape, ranks);
  const Operand dy = builder.tensor("dY", axis.rows, shape.hidden);
  const BlockGradients block = block_gradients(builder, shape, axis, dy, "X", TpspInput::xt);
  builder.inputs([=](std::int32_t rank) {
    std::vector<Fill> fills = block_gradient_inputs(shape, block, axis, tpsp_input, rank);
    fills.push_back(piece_of(tpsp_input(shape, TpspInput::x), dy.all(), rank * axis.rows, 0));
    return fills;
  });
  builder.answers([=](const Source& source, Portion portion) {
    const BlockStart start{
        .dy = input_tokens(shape, source), .exact = true, .saved = attention_inputs(shape, source)};
    std::vector<Answers> answers =
        block_gradient_answers(shape, block, axis, start, source, portion);
    answers.push_back(gradient_answer(block.out.dwo.id, tpsp_transpose(shape, TpspInput::x), 0,
                                      own_tokens_of(shape, TpspInput::ot, axis), source));
    return answers;
  });
  add_out_gradients(builder, axis, block.out);
  add_attention_gradient(builder, shape, axis, block.attended);
  add_projection_gradients(builder, axis, block.projections, received_gradients(block.attended));
  builder.output(block.out.dwo);
  add_projection_outputs(builder, block.projections);
  return builder.take();
}

}  // namespace commfuse

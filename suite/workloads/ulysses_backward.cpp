// SPDX-License-Identifier: Apache-2.0
// Backward passes of ulysses: the exchanges of the forward pass the other way round. Saved
// activations are given.
#include <algorithm>

#include "suite/workloads/block_phases.h"
#include "suite/workloads/phases.h"
#include "suite/workloads/tpsp_inputs.h"
#include "suite/workloads/ulysses.h"
#include "suite/workloads/ulysses_answers.h"
#include "suite/workloads/ulysses_attention_gradient.h"
#include "suite/workloads/ulysses_backward_answers.h"
#include "suite/workloads/ulysses_backward_stages.h"

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

/// The own tokens of a global tensor, block j with the j-th share of its columns.
std::vector<Fill> token_blocks(const Fill& global, const Operand& blocks, const Axis& axis,
                               std::int32_t rank) {
  std::vector<Fill> fills;
  for (std::int32_t block = 0; block < axis.ranks; ++block) {
    fills.push_back(piece_of(global, blocks.rows(block * axis.rows, axis.rows), rank * axis.rows,
                             block * blocks.tensor.cols));
  }
  return fills;
}

/// What the out-projection's backward pass starts from, and dWo.
struct OutGradients {
  Operand dy, o, wo, dwo;  // dY of the own tokens; O as the forward pass received it
};

OutGradients out_gradients(WorkloadBuilder& builder, const Shape& shape, const Axis& axis) {
  const std::int32_t width = shape.heads * shape.head_dim;
  OutGradients made;
  made.dy = builder.tensor("dY", axis.rows, shape.hidden);
  made.o = builder.tensor("O", shape.tokens, width / axis.ranks);
  made.wo = builder.weight("Wo", shape.hidden, width);
  made.dwo = builder.gradient("dWo", made.wo);
  return made;
}

/// dO leaves for the heads' ranks, under the gradient of the weight.
void add_out_gradients(WorkloadBuilder& builder, const Axis& axis, const OutGradients& out,
                       const Exchanged& d_o) {
  builder.stage({.name = "do",
                 .axis = axis,
                 .phases = {last_input_gradient_for_peers(axis, d_o.send, out.dy, out.wo)},
                 .all_to_all = AllToAll{d_o.send.id, d_o.receive.id}});
  builder.stage({.name = "dwo",
                 .axis = axis,
                 .phases = {weight_gradient_of_blocks(axis, out.dwo, out.dy, out.o)}});
}

std::vector<Fill> out_gradient_inputs(const Shape& shape, const OutGradients& out, const Axis& axis,
                                      std::int32_t rank) {
  std::vector<Fill> fills = token_blocks(tpsp_transpose(shape, TpspInput::ot), out.o, axis, rank);
  fills.push_back(piece_of(tpsp_input(shape, TpspInput::x), out.dy.all(), rank * axis.rows, 0));
  fills.push_back(piece_of(tpsp_transpose(shape, TpspInput::wq), out.wo.all(), 0, 0));
  return fills;
}

/// dO = dY Wo.
OutputGradients projected_output_gradients(const Shape& shape, const Source& source) {
  return [=](Range heads, std::span<const std::int32_t> tokens) {
    const Range features{heads.first * shape.head_dim, heads.count * shape.head_dim};
    return project(input_tokens(shape, source)(tokens), tpsp_input(shape, TpspInput::wq), features,
                   source, shape.dtype);
  };
}

/// The same as it is sent: as a forward pass sends the projection of dY by Wo^T.
Answers sent_output_gradient(TensorId sent, const Shape& shape, const Axis& axis,
                             const Source& source) {
  return {
      .tensor = sent, .exact = true, .rows = [=](Range asked, std::span<const std::int32_t> rows) {
        return projection_rows(shape, tpsp_input(shape, TpspInput::wq), input_tokens(shape, source),
                               axis.ranks, asked.first, rows, source);
      }};
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
  const ProjectionGradients operands = projection_gradients(builder, shape, axis);
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
    std::vector<Fill> fills = attention_gradient_inputs(shape, operands, rank);
    for (const Fill& fill : token_blocks(tpsp_input(shape, TpspInput::d_o), d_o.send, axis, rank)) {
      fills.push_back(fill);
    }
    return fills;
  });
  builder.answers([=](const Source& source, Portion portion) {
    const OutputGradients reaching =
        portion == Portion::schedule ? given_output_gradients(shape, source)
                                     : stand_in_output_gradients(d_o.receive, shape, ranks, source);
    return attention_gradient_answers(operands, axis,
                                      attended_gradients(shape, axis, reaching, source));
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
  const OutGradients out = out_gradients(builder, shape, axis);
  const Exchanged d_o = exchanged(builder, "dO", axis, shape.heads * shape.head_dim / ranks);
  const ExchangedGradients attended =
      attention_gradient_operands(builder, shape, axis, d_o.receive);
  const ReceivedGradients received{attended.dq.receive, attended.dk.receive, attended.dv.receive};
  const ProjectionGradients projections = projection_gradients(builder, shape, axis);
  builder.inputs([=](std::int32_t rank) {
    std::vector<Fill> fills = out_gradient_inputs(shape, out, axis, rank);
    for (const auto& more : {attention_gradient_inputs(shape, attended, rank),
                             projection_gradient_inputs(shape, projections, axis, rank)}) {
      fills.insert(fills.end(), more.begin(), more.end());
    }
    return fills;
  });
  builder.answers([=](const Source& source, Portion portion) {
    const bool scheduled = portion == Portion::schedule;
    const SentGradients gradients =
        attended_gradients(shape, axis,
                           scheduled ? projected_output_gradients(shape, source)
                                     : stand_in_output_gradients(d_o.receive, shape, ranks, source),
                           source);
    std::vector<Answers> answers = projection_gradient_answers(
        shape, projections, axis, !scheduled,
        scheduled ? gradients : stand_in_gradients(received, axis, source), source);
    answers.push_back(out_weight_gradient(out.dwo.id, shape, axis, source));
    if (scheduled) return answers;
    answers.push_back(sent_output_gradient(d_o.send.id, shape, axis, source));
    for (Answers& sent : attention_gradient_answers(attended, axis, gradients)) {
      answers.push_back(std::move(sent));
    }
    return answers;
  });
  add_out_gradients(builder, axis, out, d_o);
  add_attention_gradient(builder, shape, axis, attended);
  add_projection_gradients(builder, axis, projections, received);
  builder.output(out.dwo);
  add_projection_outputs(builder, projections);
  return builder.take();
}

}  // namespace commfuse

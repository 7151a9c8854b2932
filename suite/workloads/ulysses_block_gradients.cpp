// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/ulysses_block_gradients.h"

#include <utility>

#include "suite/workloads/block_phases.h"
#include "suite/workloads/ulysses_answers.h"

namespace commfuse {
namespace {

/// dO = dY Wo.
OutputGradients projected_output_gradients(const Shape& shape, const TokenRows& dy,
                                           const Source& source) {
  return [=](Range heads, std::span<const std::int32_t> tokens) {
    const Range features{heads.first * shape.head_dim, heads.count * shape.head_dim};
    return project(dy(tokens), tpsp_input(shape, TpspInput::wq), features, source, shape.dtype);
  };
}

/// The same as it is sent: as a forward pass sends the projection of dY by Wo^T.
Answers sent_output_gradient(TensorId sent, const Shape& shape, const Axis& axis,
                             const BlockStart& start, const Source& source) {
  return {.tensor = sent,
          .exact = start.exact,
          .rows = [=](Range asked, std::span<const std::int32_t> rows) {
            return projection_rows(shape, tpsp_input(shape, TpspInput::wq), start.dy, axis.ranks,
                                   asked.first, rows, source);
          }};
}

}  // namespace

BlockGradients block_gradients(WorkloadBuilder& builder, const Shape& shape, const Axis& axis,
                               const Operand& dy, const std::string& x, TpspInput xt) {
  const std::int32_t width = shape.heads * shape.head_dim;
  OutGradients out;
  out.dy = dy;
  out.o = builder.tensor("O", shape.tokens, width / axis.ranks);
  out.wo = builder.weight("Wo", shape.hidden, width);
  out.dwo = builder.gradient("dWo", out.wo);
  out.d_o = exchanged(builder, "dO", axis, width / axis.ranks);
  const ExchangedGradients attended =
      attention_gradient_operands(builder, shape, axis, out.d_o.receive);
  return {out, attended, projection_gradients(builder, shape, axis, x, xt)};
}

ReceivedGradients received_gradients(const ExchangedGradients& attended) {
  return {attended.dq.receive, attended.dk.receive, attended.dv.receive};
}

std::vector<Fill> token_blocks(const Fill& global, const Operand& blocks, const Axis& axis,
                               std::int32_t rank) {
  std::vector<Fill> fills;
  for (std::int32_t block = 0; block < axis.ranks; ++block) {
    fills.push_back(piece_of(global, blocks.rows(block * axis.rows, axis.rows), rank * axis.rows,
                             block * blocks.tensor.cols));
  }
  return fills;
}

std::vector<Fill> block_gradient_inputs(const Shape& shape, const BlockGradients& block,
                                        const Axis& axis, SavedHeads saved, std::int32_t rank) {
  std::vector<Fill> fills =
      token_blocks(tpsp_transpose(shape, TpspInput::ot), block.out.o, axis, rank);
  fills.push_back(piece_of(tpsp_transpose(shape, TpspInput::wq), block.out.wo.all(), 0, 0));
  for (const auto& more : {attention_gradient_inputs(shape, block.attended, saved, rank),
                           projection_gradient_inputs(shape, block.projections, axis, rank)}) {
    fills.insert(fills.end(), more.begin(), more.end());
  }
  return fills;
}

void add_out_gradients(WorkloadBuilder& builder, const Axis& axis, const OutGradients& out) {
  builder.stage({.name = "do",
                 .axis = axis,
                 .phases = {last_input_gradient_for_peers(axis, out.d_o.send, out.dy, out.wo)},
                 .all_to_all = AllToAll{out.d_o.send.id, out.d_o.receive.id}});
  builder.stage({.name = "dwo",
                 .axis = axis,
                 .phases = {weight_gradient_of_blocks(axis, out.dwo, out.dy, out.o)}});
}

std::vector<Answers> block_gradient_answers(const Shape& shape, const BlockGradients& block,
                                            const Axis& axis, const BlockStart& start,
                                            const Source& source, Portion portion) {
  const bool scheduled = portion == Portion::schedule;
  const SentGradients gradients = attended_gradients(
      shape, axis, start.saved,
      scheduled ? projected_output_gradients(shape, start.dy, source)
                : stand_in_output_gradients(block.out.d_o.receive, shape, axis.ranks, source));
  std::vector<Answers> answers = projection_gradient_answers(
      shape, block.projections, axis, !scheduled,
      scheduled ? gradients : stand_in_gradients(received_gradients(block.attended), axis, source),
      source);
  if (scheduled) return answers;
  answers.push_back(sent_output_gradient(block.out.d_o.send.id, shape, axis, start, source));
  for (Answers& sent : attention_gradient_answers(block.attended, axis, gradients)) {
    answers.push_back(std::move(sent));
  }
  return answers;
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// Backward passes of ulysses: the exchanges of the forward pass the other way round. Saved
// activations are given.
#include <algorithm>

#include "suite/workloads/phases.h"
#include "suite/workloads/tpsp_inputs.h"
#include "suite/workloads/ulysses.h"
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

}  // namespace

std::string ulysses_backward_unsupported(const Shape& shape, std::int32_t ranks) {
  std::string reason = ulysses_unsupported(shape, ranks);
  if (!reason.empty()) return reason;
  return unless_countable("tokens x max(tokens, hidden) x (heads + kv_heads) x head_dim",
                          backward_size(shape, ranks));
}

Workload ulysses_qkv_backward(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("ulysses/qkv", shape, ranks);
  const Axis axis = ulysses_axis(shape, ranks);
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
    const HeadGradients gradients = portion == Portion::schedule
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

}  // namespace commfuse

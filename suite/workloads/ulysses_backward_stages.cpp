// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/ulysses_backward_stages.h"

#include <string>

#include "suite/workloads/block_phases.h"
#include "suite/workloads/tpsp_inputs.h"

namespace commfuse {

void add_exchange(WorkloadBuilder& builder, std::string_view name, const Axis& axis,
                  const Exchanged& moved) {
  builder.stage({.name = std::string(name),
                 .axis = axis,
                 .phases = {},
                 .all_to_all = AllToAll{moved.send.id, moved.receive.id}});
}

ProjectionGradients projection_gradients(WorkloadBuilder& builder, const Shape& shape,
                                         const Axis& axis, const std::string& x, TpspInput xt) {
  const std::int32_t width = shape.heads * shape.head_dim;
  const std::int32_t kv_width = shape.kv_heads * shape.head_dim;
  ProjectionGradients made;
  made.xt = xt;
  made.x = builder.tensor(x, axis.rows, shape.hidden);
  made.wq = builder.weight("Wq", width, shape.hidden);
  made.wk = builder.weight("Wk", kv_width, shape.hidden);
  made.wv = builder.weight("Wv", kv_width, shape.hidden);
  made.dx = builder.tensor("d" + x, axis.rows, shape.hidden);
  made.dwq = builder.gradient("dWq", made.wq);
  made.dwk = builder.gradient("dWk", made.wk);
  made.dwv = builder.gradient("dWv", made.wv);
  return made;
}

void add_projection_gradients(WorkloadBuilder& builder, const Axis& axis,
                              const ProjectionGradients& operands,
                              const ReceivedGradients& received) {
  const auto stage = [&](std::string_view name, const Operand& dy, const Operand& w,
                         const Operand& dw) {
    builder.stage({.name = std::string(name),
                   .axis = axis,
                   .phases = {input_gradient_over_pieces(axis, operands.dx, dy, w),
                              weight_gradient_over_pieces(axis, dw, dy, operands.x)},
                   .pieces = Pieces{dy.id}});
  };
  stage("dx_q", received.q, operands.wq, operands.dwq);
  stage("dx_k", received.k, operands.wk, operands.dwk);
  stage("dx_v", received.v, operands.wv, operands.dwv);
}

std::vector<Fill> projection_gradient_inputs(const Shape& shape,
                                             const ProjectionGradients& operands, const Axis& axis,
                                             std::int32_t rank) {
  const auto whole_weight = [&](TpspInput transposed, const Operand& weight) {
    return piece_of(tpsp_transpose(shape, transposed), weight.all(), 0, 0);
  };
  return {piece_of(tpsp_transpose(shape, operands.xt), operands.x.all(), rank * axis.rows, 0),
          whole_weight(TpspInput::out, operands.wq), whole_weight(TpspInput::wkt, operands.wk),
          whole_weight(TpspInput::wvt, operands.wv)};
}

void add_projection_outputs(WorkloadBuilder& builder, const ProjectionGradients& operands) {
  builder.output(operands.dx);
  builder.output(operands.dwq);
  builder.output(operands.dwk);
  builder.output(operands.dwv);
}

}  // namespace commfuse

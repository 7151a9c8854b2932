// SPDX-License-Identifier: Apache-2.0
// The stages that the backward passes of ulysses are made of. What is exchanged lies in blocks of
// rows, as in the forward pass (ulysses.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "suite/stage.h"
#include "suite/workloads/tpsp_inputs.h"
#include "suite/workloads/ulysses_stages.h"
#include "suite/workloads/workload_builder.h"

namespace commfuse {

/// A stage that exchanges what is there.
void add_exchange(WorkloadBuilder& builder, std::string_view name, const Axis& axis,
                  const Exchanged& moved);

/// dQ, dK and dV as received: all heads of the own tokens.
struct ReceivedGradients {
  Operand q, k, v;
};

/// The backward pass of the projections, of the own tokens; weights are whole.
struct ProjectionGradients {
  TpspInput xt;  // the transpose of what x has the own tokens of
  Operand x, wq, wk, wv;
  Operand dx, dwq, dwk, dwv;
};
/// x and dx are named "X" and "dX" where that is the name.
ProjectionGradients projection_gradients(WorkloadBuilder& builder, const Shape& shape,
                                         const Axis& axis, const std::string& x, TpspInput xt);
/// The stages dx_q, dx_k and dx_v: each adds to dX as the pieces come in, and multiplies them with
/// X for the gradient of its weight. dQ first, so that dK and dV travel meanwhile.
void add_projection_gradients(WorkloadBuilder& builder, const Axis& axis,
                              const ProjectionGradients& operands,
                              const ReceivedGradients& received);
std::vector<Fill> projection_gradient_inputs(const Shape& shape,
                                             const ProjectionGradients& operands, const Axis& axis,
                                             std::int32_t rank);
/// dX and the gradients of the weights are outputs.
void add_projection_outputs(WorkloadBuilder& builder, const ProjectionGradients& operands);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// The gradients of a whole MLP of tpsp: what its own backward pass and a layer's share.
#pragma once

#include <cstdint>
#include <vector>

#include "suite/workloads/workload_builder.h"

namespace commfuse {

/// The weights and saved activations of a rank's features, and what is computed from them. Under
/// SwiGLU H, U and their gradients hold the gate's part first.
struct MlpGradients {
  Operand a, h, u, d;
  Operand da, dh, partial;
  Operand dd, du;
};
MlpGradients add_mlp_gradients(WorkloadBuilder& builder, const Shape& shape, std::int32_t ranks);

/// Of a, h, u and d: sparse along what their gradients sum (tpsp_backward_answers.h).
std::vector<Fill> mlp_gradient_inputs(const Shape& shape, const MlpGradients& mlp,
                                      std::int32_t rank);

/// gather dy; dA, dH, partial, reduce-scatter to dx.
Stage mlp_dgrad(const Shape& shape, const Axis& axis, const MlpGradients& mlp, const Operand& dy,
                const Operand& dx);
/// dD, after dy was gathered.
Stage mlp_wgrad_down(const Axis& axis, const MlpGradients& mlp, const Operand& dy);
/// gather x; dU.
Stage mlp_wgrad_up(const Axis& axis, const MlpGradients& mlp, const Operand& x);

}  // namespace commfuse

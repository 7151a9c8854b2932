// SPDX-License-Identifier: Apache-2.0
// The gradients of a whole MLP of tpsp: what its own backward pass and a layer's share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "suite/workloads/workload_builder.h"

namespace commfuse {

/// The weights and saved activations of a rank's features and tokens, and what is computed from
/// them. Under SwiGLU H, U and their gradients hold the gate's part first.
struct MlpGradients {
  Operand a, h, u, d;
  Operand da, dh, partial;
  Operand dd, du;
};
/// Of some tokens; features are cut over `ranks`, so that what is to be summed over these has a
/// name that says so.
MlpGradients add_mlp_gradients(WorkloadBuilder& builder, const Shape& shape, std::int32_t tokens,
                               std::int32_t ranks, std::string partial);

/// Where a rank's tokens and features begin among all.
struct MlpPlace {
  std::int32_t token, feature;
};
/// Of a rank that has every token.
MlpPlace features_of(const MlpGradients& mlp, std::int32_t rank);

/// Of a, h, u and d: sparse along what their gradients sum (tpsp_backward_answers.h).
std::vector<Fill> mlp_gradient_inputs(const Shape& shape, const MlpGradients& mlp,
                                      const MlpPlace& place);

/// dA, dH and partial.
std::vector<Phase> mlp_dgrad_phases(const Shape& shape, const Axis& axis, const MlpGradients& mlp,
                                    const Operand& dy);
/// gather dy; dA, dH, partial, reduce-scatter to dx.
Stage mlp_dgrad(const Shape& shape, const Axis& axis, const MlpGradients& mlp, const Operand& dy,
                const Operand& dx);
/// dD, once dy is there.
Stage mlp_wgrad_down(const Axis& axis, const MlpGradients& mlp, const Operand& dy);
/// dU; x is gathered where it is not there.
Stage mlp_wgrad_up(const Axis& axis, const MlpGradients& mlp, const Operand& x,
                   std::optional<Gather> gather);

}  // namespace commfuse

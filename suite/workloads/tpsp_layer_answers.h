// SPDX-License-Identifier: Apache-2.0
// The oracle's answers for tpsp/layer where nothing moves: every rank goes on with stand-ins.
#pragma once

#include <vector>

#include "suite/answers.h"
#include "suite/shape.h"
#include "suite/stage.h"
#include "suite/workloads/workload_builder.h"

namespace commfuse {

/// What a stage leaves to the next: buffers with a slice for every rank, and results of the own
/// slice.
struct LayerOperands {
  Operand xn;                          // norm(X), gathered
  Operand attended, attention_result;  // partial and result of attention
  Operand yn;                          // norm(Y), gathered
  Operand mlp, mlp_result;             // partial and result of the MLP
  Operand z;
};

/// Of both partials and Z.
std::vector<Answers> layer_stand_in_answers(const Shape& shape, const LayerOperands& operands,
                                            const Axis& axis, const Source& source);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// The tensors of the backward pass of a whole layer of tpsp, and the oracle's answers for them.
#pragma once

#include <vector>

#include "suite/answers.h"
#include "suite/portion.h"
#include "suite/shape.h"
#include "suite/stage.h"
#include "suite/workloads/tpsp_inputs.h"
#include "suite/workloads/tpsp_mlp_gradients.h"
#include "suite/workloads/workload_builder.h"

namespace commfuse {

/// "own" are the own tokens alone; the others have every token, or are weights and their gradients.
struct LayerGradients {
  Operand dz;              // what reaches the layer's output; gathered
  Operand yn, qkv, o, xn;  // saved; yn and xn, the results of norms, gathered
  Operand y, x;            // saved inputs of the norms, own
  Operand gamma_mlp, wo, wqkv, gamma_attention;
  MlpGradients mlp;                      // its partial is reduced to
  Operand dyn;                           // what reaches the norm of the MLP, own
  Operand dy;                            // what reaches Y; the own slice is computed; gathered
  Operand d_o, dqkv, attention_partial;  // the last is reduced to
  Operand dxn;                           // what reaches the norm of attention, own
  Operand dx;                            // own
  Operand dwo, dwqkv;
  Operand gamma_mlp_partial, dgamma_mlp, gamma_attention_partial, dgamma_attention;  // one row
};

/// Of all partials, dX and the gradients of all weights.
std::vector<Answers> layer_gradient_answers(const Shape& shape, const LayerGradients& layer,
                                            const Axis& axis, const Source& source,
                                            Portion portion);

}  // namespace commfuse

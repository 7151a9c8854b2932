// SPDX-License-Identifier: Apache-2.0
// The tensors of the backward pass of a whole layer of ulysses, and the oracle's answers for them.
#pragma once

#include <vector>

#include "suite/answers.h"
#include "suite/portion.h"
#include "suite/shape.h"
#include "suite/stage.h"
#include "suite/workloads/tpsp_mlp_gradients.h"
#include "suite/workloads/ulysses_block_gradients.h"
#include "suite/workloads/workload_builder.h"

namespace commfuse {

/// Of the own tokens, but for what the block exchanges.
struct UlyssesLayerGradients {
  Operand dz;    // what reaches the layer's output
  Operand yn;    // saved result of the norm of the MLP
  Operand y, x;  // saved inputs of the norms
  Operand gamma_mlp, gamma_attention;
  MlpGradients mlp;      // its partial, dYn, is whole: it reaches the norm of the MLP
  BlockGradients block;  // from dY, what reaches Y, to dXn, what reaches the norm of attention
  Operand dx, dgamma_mlp, dgamma_attention;
};

/// Of dX and the gradients of all weights; where nothing moves, of what is sent too.
std::vector<Answers> ulysses_layer_gradient_answers(const Shape& shape,
                                                    const UlyssesLayerGradients& layer,
                                                    const Axis& axis, const Source& source,
                                                    Portion portion);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// The backward pass of a block of ulysses, alone or within a layer: what it is made of, and what
// the oracle says of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "suite/answers.h"
#include "suite/portion.h"
#include "suite/workloads/ulysses_attention_gradient.h"
#include "suite/workloads/ulysses_backward_answers.h"
#include "suite/workloads/ulysses_backward_stages.h"

namespace commfuse {

/// What the out-projection's backward pass starts from; dO and dWo.
struct OutGradients {
  Operand dy, o, wo, dwo;  // dY of the own tokens; O as the forward pass received it
  Exchanged d_o;
};

struct BlockGradients {
  OutGradients out;
  ExchangedGradients attended;
  ProjectionGradients projections;
};
/// `x` names what was projected, the own tokens of a saved activation whose transpose is `xt`.
BlockGradients block_gradients(WorkloadBuilder& builder, const Shape& shape, const Axis& axis,
                               const Operand& dy, const std::string& x, TpspInput xt);
ReceivedGradients received_gradients(const ExchangedGradients& attended);
/// All but dY.
std::vector<Fill> block_gradient_inputs(const Shape& shape, const BlockGradients& block,
                                        const Axis& axis, SavedHeads saved, std::int32_t rank);
/// The own tokens of a global tensor, block j with the j-th share of its columns.
std::vector<Fill> token_blocks(const Fill& global, const Operand& blocks, const Axis& axis,
                               std::int32_t rank);

/// The stages do and dwo: dO leaves for the heads' ranks, under the gradient of the weight.
void add_out_gradients(WorkloadBuilder& builder, const Axis& axis, const OutGradients& out);

/// What the answers start from: dY, whether it is free of error where data are exact, and Q, K, V.
struct BlockStart {
  TokenRows dy;
  bool exact = false;
  AttentionInputs saved;
};
/// Of dX and the gradients of the projections' weights; where nothing moves, of what is sent too.
std::vector<Answers> block_gradient_answers(const Shape& shape, const BlockGradients& block,
                                            const Axis& axis, const BlockStart& start,
                                            const Source& source, Portion portion);

}  // namespace commfuse

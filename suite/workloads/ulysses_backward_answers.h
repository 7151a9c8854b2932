// SPDX-License-Identifier: Apache-2.0
// The oracle's answers for the backward passes of ulysses. A rank's tokens are numbered from its
// first one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "suite/answers.h"
#include "suite/shape.h"
#include "suite/workloads/tpsp_backward_answers.h"
#include "suite/workloads/tpsp_inputs.h"
#include "suite/workloads/ulysses_backward_stages.h"

namespace commfuse {

/// Some features of what reaches a projection's result, for some tokens of a rank.
using TokenGradients =
    std::function<Rows(std::int32_t rank, Range features, std::span<const std::int32_t> tokens)>;

/// What reaches Q, K and V.
struct SentGradients {
  TokenGradients q, k, v;
};
/// The global inputs dQ, dK and dV.
SentGradients given_gradients(const Shape& shape, const Axis& axis, const Source& source);
/// What a rank has received of them where nothing is exchanged.
SentGradients stand_in_gradients(const ReceivedGradients& received, const Axis& axis,
                                 const Source& source);

/// dX and the gradients of Wq, Wk and Wv.
std::vector<Answers> projection_gradient_answers(const Shape& shape,
                                                 const ProjectionGradients& operands,
                                                 const Axis& axis, bool exact,
                                                 const SentGradients& gradients,
                                                 const Source& source);

/// The transpose of a saved activation as the weight of a product over a rank's own tokens.
SparseOperand own_tokens_of(const Shape& shape, TpspInput transposed, const Axis& axis);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// The oracle's answers for backward passes of tpsp. Products with what was summed over features
// forward are given by their transposes, so that sums of exact data stay small (data.cpp): weights
// are sparse along what is summed here, and so are saved activations along the tokens.
#pragma once

#include <cstdint>
#include <functional>

#include "suite/answers.h"
#include "suite/shape.h"
#include "suite/workloads/tpsp_inputs.h"

namespace commfuse {

/// The transpose of a saved activation as the weight of a product over tokens: X whole, of A the
/// columns of the ranks asked for.
using SparseOperand = std::function<WeightPart(Range asked)>;
SparseOperand sparse_x(const Shape& shape);
SparseOperand sparse_a(const Shape& shape, std::int32_t ranks);

/// dy^T x over the tokens that xt names, in fp32; dy as the transpose of a global tensor, of which
/// every rank has `features` rows.
Answers gradient_answer(TensorId tensor, const Fill& dy_transposed, std::int32_t features,
                        const SparseOperand& xt, const Source& source);

/// sum += term, whose errors are taken as they are.
void add(Rows& sum, const Rows& term);

/// dX before it is summed over ranks.
Answers mlp_input_gradient(TensorId partial, const Shape& shape, std::int32_t ranks,
                           const Source& source);

/// The tokens and features of an MLP that a rank has.
struct MlpShare {
  Range tokens, features;
};
using MlpShares = std::function<MlpShare(std::int32_t rank)>;
/// Every token and some features, or some tokens and every feature.
MlpShares cut_by_features(const Shape& shape, std::int32_t ranks);
MlpShares cut_by_tokens(const Shape& shape, std::int32_t ranks);
/// dU; under SwiGLU a rank's rows are those of the gate, then of up.
Answers mlp_up_gradient(TensorId du, const Shape& shape, const MlpShares& shares,
                        const Source& source);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// The oracle's answers for a transformer layer, Y = X + attention(norm(X)), Z = Y + mlp(norm(Y)):
// what tpsp and ulysses share. `mlp_ranks` is how many ranks cut the MLP's features (1: weights are
// whole).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "suite/answers.h"
#include "suite/shape.h"
#include "suite/stage.h"
#include "suite/workloads/projected_heads.h"
#include "suite/workloads/tpsp_answers.h"

namespace commfuse {

/// Whole global weights. Exact ones have one entry per row, so that what a number is off by does
/// not grow from gemm to gemm (a norm is not exact). Random ones are scaled so that attention and
/// the MLP change much of what they are added to.
struct LayerInputs {
  Fill gamma_attention;
  ProjectionWeights projections;
  Fill out;
  Fill gamma_mlp;
  MlpWeights mlp;
};
LayerInputs layer_inputs(const Shape& shape);

/// norm(x).
Rows normed(const Rows& x, const Fill& gamma, const Source& source, DType dtype);
/// What attention projects: norm(X).
TokenRows attention_norm(const Shape& shape, const Source& source);
/// y + mlp(norm(y)).
Rows with_mlp(const Shape& shape, const Rows& y, std::int32_t mlp_ranks, const Source& source);

/// Z of the own tokens.
Answers layer_answer(const Shape& shape, TensorId z, const Axis& axis, std::int32_t mlp_ranks,
                     const Source& source);

/// The numbers of these of a rank's own tokens among all.
std::vector<std::int32_t> tokens_of(const Axis& axis, std::int32_t rank,
                                    std::span<const std::int32_t> own);

}  // namespace commfuse

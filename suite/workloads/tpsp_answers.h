// SPDX-License-Identifier: Apache-2.0
// The oracle's answers for the linear layers of tpsp: the formulas on global tensors.
#pragma once

#include <cstdint>

#include "suite/answers.h"
#include "suite/shape.h"
#include "suite/workloads/tpsp_inputs.h"

namespace commfuse {

/// The part of `total` rows or columns that these of `ranks` ranks hold.
Range share_of(Range ranks_asked, std::int32_t total, std::int32_t ranks);
/// A weight cut by output features, or along its reduction.
WeightPart column_parallel(const Fill& weight, Range ranks_asked, std::int32_t ranks);
WeightPart row_parallel(const Fill& weight, Range ranks_asked, std::int32_t ranks);
WeightPart column_parallel(const Shape& shape, TpspInput weight, Range ranks_asked,
                           std::int32_t ranks);
WeightPart row_parallel(const Shape& shape, TpspInput weight, Range ranks_asked,
                        std::int32_t ranks);

/// Whole global weights; the gate's for SwiGLU only.
struct MlpWeights {
  Fill up, gate, down;
};
MlpWeights mlp_weights(const Shape& shape);
/// activation(x U^T) D^T, summed over the ranks asked for.
Rows mlp_rows(const Rows& x, const Shape& shape, const MlpWeights& weights, std::int32_t ranks,
              Range ranks_asked, const Source& source);

Answers ag_gemm_answers(TensorId h, const Shape& shape, std::int32_t ranks, const Source& source);
Answers gemm_rs_answers(TensorId partial, const Shape& shape, std::int32_t ranks,
                        const Source& source);
Answers mlp_answers(TensorId partial, const Shape& shape, std::int32_t ranks, const Source& source);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// The oracle's queries, keys and values where they are projections of something else.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "suite/oracle_attention.h"
#include "suite/oracle_linear.h"
#include "suite/shape.h"

namespace commfuse {

/// Rows of a tensor that has one for every token.
using TokenRows = std::function<Rows(std::span<const std::int32_t> tokens)>;

/// The input x.
TokenRows input_tokens(const Shape& shape, const Source& source);

/// Whole global weights.
struct ProjectionWeights {
  Fill q, k, v;
};
ProjectionWeights projection_weights(const Shape& shape);

/// x w^T for some rows of w. Of exact data that is free of error no sum is rounded (data.cpp), so
/// nothing is off.
Rows project(const Rows& x, const Fill& weight, Range features, const Source& source, DType dtype);

/// Q, K and V as projections of x. Keys and values of a head are computed once, some tokens at a
/// time.
AttentionInputs projected_inputs(const Shape& shape, const ProjectionWeights& weights,
                                 const TokenRows& x, const Source& source);

}  // namespace commfuse

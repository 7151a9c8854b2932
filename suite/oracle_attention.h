// SPDX-License-Identifier: Apache-2.0
// Attention of the oracle, for some query rows and heads.
#pragma once

#include <cstdint>
#include <span>

#include "suite/data.h"
#include "suite/oracle_linear.h"
#include "suite/shape.h"

namespace commfuse {

/// Columns of `heads` of O = softmax(mask(Q K^T / sqrt(head_dim))) V for these rows, stored in
/// shape.dtype; Q, K and V are the global inputs of tpsp/attention.
Rows attend(const Shape& shape, Range heads, std::span<const std::int32_t> rows,
            const Source& source);

}  // namespace commfuse

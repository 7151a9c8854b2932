// SPDX-License-Identifier: Apache-2.0
// Attention of the oracle, for some query rows and heads.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "suite/data.h"
#include "suite/oracle_linear.h"
#include "suite/shape.h"

namespace commfuse {

/// Where attention takes its operands from. Rows are those of the sequence, with their errors.
struct AttentionInputs {
  /// The columns of these query heads, for some rows.
  std::function<Rows(Range heads, std::span<const std::int32_t> rows)> q;
  /// The columns of one kv head, every row.
  std::function<Rows(std::int32_t head)> k, v;
};

/// The global inputs q, k and v of tpsp/attention.
AttentionInputs attention_inputs(const Shape& shape, const Source& source);
/// Some columns of a global tensor, every row.
Rows all_rows(const Fill& global, Range cols, const Source& source);

/// Columns of `heads` of O = softmax(mask(Q K^T / sqrt(head_dim))) V for these rows, stored in
/// shape.dtype.
Rows attend(const Shape& shape, const AttentionInputs& inputs, Range heads,
            std::span<const std::int32_t> rows);

}  // namespace commfuse

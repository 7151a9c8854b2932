// SPDX-License-Identifier: Apache-2.0
// The gradient of attention (AttentionGradient of compute.h) of the oracle, for some rows and
// heads.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "suite/oracle_attention.h"

namespace commfuse {

/// Where the gradient of attention takes its operands from. Rows are those of the sequence, with
/// their errors.
struct AttentionGradientInputs {
  AttentionInputs forward;
  /// The columns of these query heads of what reaches O, for some rows.
  std::function<Rows(Range heads, std::span<const std::int32_t> rows)> d_o;
};

/// Columns of `heads` of dQ for these rows, stored in shape.dtype. Costs what attend() costs for
/// the same rows, twice.
Rows attend_gradient(const Shape& shape, const AttentionGradientInputs& inputs, Range heads,
                     std::span<const std::int32_t> rows);

struct KeyGradients {
  Rows dk, dv;
};

/// How sums over query rows are made: in tiles that follow each other in any order, `times_stored`
/// results on the way in `dtype`, the last one included: 1 where one op sums all rows.
struct KeySums {
  DType dtype = DType::f32;
  std::int32_t times_stored = 1;
};

/// Columns of `kv_heads` of dK and dV for these rows, summed over all query rows and the heads that
/// read them. Weights and slopes are rounded to shape.dtype on the way. Costs 4 head_dim
/// multiply-adds per query head and visible pair of all queries that see one of the keys, however
/// few are asked for: every query's softmax is needed.
KeyGradients attend_key_gradients(const Shape& shape, const AttentionGradientInputs& inputs,
                                  Range kv_heads, std::span<const std::int32_t> rows,
                                  const KeySums& sums);

}  // namespace commfuse

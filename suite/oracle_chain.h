// SPDX-License-Identifier: Apache-2.0
// Linear maps one after the other, for some columns of the result and many rows: what gradients
// need of the gradients above them.
#pragma once

#include <cstdint>
#include <span>

#include "suite/data.h"
#include "suite/oracle_linear.h"

namespace commfuse {

/// Columns `features` of x a_1^T ... a_n^T for the rows `tokens` of the global tensor x, as the
/// rows of the answer: it has one for each feature, and a column for each token. The weights a_i
/// [out, in] are whole global tensors, at least one, each of its own numbers; results of every map
/// are stored in `dtype`. Exact data is taken to stay exact.
Rows chain_columns(const Fill& x, Range tokens, std::span<const Fill> weights,
                   std::span<const std::int32_t> features, const Source& source, DType dtype);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// Freivalds' check of one gemm: (x w^T) p = x (w^T p), at the cost of two matrix-vector products.
#pragma once

#include <cstdint>
#include <span>

#include "suite/oracle.h"
#include "suite/oracle_linear.h"

namespace commfuse {

/// (x w^T) p for every row of the global tensor `x` in `rows`; p has a number per output feature.
ExpectedRow project(const Fill& x, Range rows, const WeightPart& weight, std::span<const double> p,
                    const Source& source, DType dtype);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// The oracle's answers for the ulysses workloads. Rows of what is sent are numbered over the
// blocks.
#pragma once

#include <cstdint>
#include <span>

#include "suite/oracle_linear.h"
#include "suite/shape.h"
#include "suite/workloads/projected_heads.h"

namespace commfuse {

/// What `rank` sends of a projection of x.
Rows projection_rows(const Shape& shape, const Fill& weight, const TokenRows& x, std::int32_t ranks,
                     std::int32_t rank, std::span<const std::int32_t> rows, const Source& source);

/// o w^T for o of all heads, whose ranks' shares are summed one after the other.
Rows out_projection(const Fill& weight, std::int32_t ranks, const Rows& o, const Source& source,
                    DType dtype);

}  // namespace commfuse

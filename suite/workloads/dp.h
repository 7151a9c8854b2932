// SPDX-License-Identifier: Apache-2.0
// Data parallelism of a linear layer [ffn, hidden]: every rank has tokens of its own, and a shape's
// tokens are those of one rank. What the ranks share is cut by output features. Each builder
// requires its constraint to be empty.
#pragma once

#include <cstdint>
#include <string>

#include "suite/workload.h"

namespace commfuse {

/// Ffn is cut over ranks.
std::string dp_zero3_unsupported(const Shape& shape, std::int32_t ranks);
std::string dp_zero2_unsupported(const Shape& shape, std::int32_t ranks);

/// Parameters cut over ranks, as ZeRO-3 and FSDP have them: gather W; Y = X W^T.
Workload dp_zero3(const Shape& shape, std::int32_t ranks);
/// Gradients cut over ranks, as ZeRO-2 and ZeRO-3 have them: partial = dY^T X; reduce-scatter.
Workload dp_zero2(const Shape& shape, std::int32_t ranks);

}  // namespace commfuse

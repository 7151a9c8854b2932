// SPDX-License-Identifier: Apache-2.0
// What the data-parallel workloads share: sizes over all ranks, and when they can be cut.
#pragma once

#include <cstdint>
#include <string>

#include "suite/shape.h"

namespace commfuse {

/// Numbers of global tensors, apart from those of other families.
enum class DpInput : std::uint32_t {
  x = 128,  // [tokens of all ranks, hidden]
  w,        // [ffn, hidden]
  dy,       // [tokens of all ranks, ffn]
  xt,       // [hidden, tokens of all ranks]: X of the weight gradient, transposed
};

/// Tokens of all ranks. Requires that the shape can be cut.
std::int32_t all_tokens(const Shape& shape, std::int32_t ranks);

/// Ffn is cut over ranks; the tokens of all ranks can be numbered.
std::string dp_unsupported(const Shape& shape, std::int32_t ranks);

}  // namespace commfuse

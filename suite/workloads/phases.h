// SPDX-License-Identifier: Apache-2.0
// The phases that stages are made of, and the reasons why a shape cannot be cut.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "suite/stage.h"
#include "suite/workloads/workload_builder.h"

namespace commfuse {

/// y = x w^T on the tile's rows of x and y; w is whole.
Phase linear(const Axis& axis, const Operand& y, const Operand& x, const Operand& w);
/// The same as the last phase of a stage: honours the target, and computes only the tile's piece of
/// the output features.
Phase last_linear(const Axis& axis, const Operand& y, const Operand& x, const Operand& w);
/// y = kind(x) on the tile's rows.
Phase activation(const Axis& axis, Activation kind, const Operand& y, const Operand& x);
/// The tile's query rows against all keys. `heads` names heads, kv_heads, head_dim and mask; its
/// views are set here.
Phase attention(const Axis& axis, const Attention& heads, const Operand& o, const Operand& q,
                const Operand& k, const Operand& v);

/// "needs ffn, which the shape does not give", or nothing.
std::string unless_given(std::string_view what, std::int32_t value);
/// "needs tokens divisible by ranks (4), got 9", or nothing.
std::string unless_divisible(std::string_view what, std::int32_t value, std::int32_t ranks);

}  // namespace commfuse

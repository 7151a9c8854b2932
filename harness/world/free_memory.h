// SPDX-License-Identifier: Apache-2.0
// What this node has left to give.
#pragma once

#include <cstdint>

namespace commfuse {

/// Free and reclaimable memory of this node, or what a container may use if that is less; 0 if it
/// cannot be read.
std::int64_t available_bytes();

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace commfuse {

/// What of a workload a plan does: all of it, or one half of it as a bound.
enum class Portion : std::uint8_t { schedule, compute_only, comm_only };

}  // namespace commfuse

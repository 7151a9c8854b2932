// SPDX-License-Identifier: Apache-2.0
// Memory that a case group needs, estimated before anything is allocated, and what the machine has.
#pragma once

#include <cstdint>
#include <string>

#include "suite/workload.h"

namespace commfuse {

/// Bytes of one rank without the scratch of its plans: the workload's tensors and, for bf16, the
/// expansion of weights and room for the largest operand three times, which no kernel exceeds.
std::int64_t estimate_rank_bytes(const Workload& workload);

/// Free and reclaimable memory of this node, or what a container may use if that is less; 0 if it
/// cannot be read.
std::int64_t available_bytes();

std::string format_bytes(std::int64_t bytes);  // "1.5 GiB"

}  // namespace commfuse

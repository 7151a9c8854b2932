// SPDX-License-Identifier: Apache-2.0
// Memory that a case group needs, estimated before anything is allocated.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "suite/workload.h"

namespace commfuse {

/// Bytes of one rank without the scratch of its plans: the workload's tensors and what kernels
/// work in. "host": for bf16 and fp16 the expansion of weights and room for the largest operand
/// three times, which no kernel exceeds. "cuda": workspaces of gemms and attention, which do not
/// grow with the shape.
std::int64_t estimate_rank_bytes(const Workload& workload, std::string_view backend);

/// Of the workload's tensors alone: one set of what an iteration works on.
std::int64_t tensor_bytes(const Workload& workload);

std::string format_bytes(std::int64_t bytes);  // "1.5 GiB"

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// CUPTI's activity buffers -> ActivityLog.
#pragma once

#include <cstddef>
#include <span>

#include "harness/cuda/activity.h"
#include "harness/cuda/cupti_library.h"

namespace commfuse {

/// Appends the records of one completed buffer, of which `bytes` are valid. Kernels, copies, peer
/// copies, memsets, runtime and driver calls and external correlations of kind CUSTOM0 are kept;
/// other kinds are passed over. Needs no driver. The buffer is 8-byte aligned and may be freed
/// afterwards.
void parse_activities(const CuptiLibrary& cupti, std::span<std::byte> bytes, ActivityLog& log);

}  // namespace commfuse

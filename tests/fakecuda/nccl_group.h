// SPDX-License-Identifier: Apache-2.0
// Groups of NCCL: the calls of a group on one communicator become one joint operation, for which
// all streams of these calls wait.
#pragma once

#include <nccl.h>

#include <string>
#include <vector>

#include "tests/fakecuda/nccl_call.h"

namespace commfuse::fake {

void start_group();
/// Issues what the group holds once the outermost ends; the first refusal within it is its result.
ncclResult_t end_group();

/// Issues checked calls as one group, or adds them to the open group of the calling rank.
ncclResult_t give(const std::vector<NcclCall>& calls);
/// Refuses a call; within a group the group is refused.
ncclResult_t refuse_call(ncclResult_t result, std::string text);

}  // namespace commfuse::fake

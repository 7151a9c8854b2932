// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "harness/record/case_metrics.h"
#include "suite/workload.h"

namespace commfuse {

/// What the workload moves, as nccl-tests counts it: the whole array of an all-gather or a
/// reduce-scatter, what a rank sends in an all-to-all (its own block too) or sums in an all-reduce.
std::vector<CollectiveBytes> collectives_of(const Workload& workload);

}  // namespace commfuse

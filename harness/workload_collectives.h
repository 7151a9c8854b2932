// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "harness/record/case_metrics.h"
#include "suite/workload.h"

namespace commfuse {

/// The collectives of all stages, in their order.
std::vector<CollectiveBytes> collectives_of(const Workload& workload);

}  // namespace commfuse

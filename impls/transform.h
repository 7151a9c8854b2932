// SPDX-License-Identifier: Apache-2.0
// Plan -> plan.
#pragma once

#include "impls/plan.h"

namespace commfuse {

/// The same compute in the same order with exchanges and collectives taken out (dependencies
/// through them contracted). Tensors keep their ids, so that an executor can run it on the storage
/// of the plan it came from: what was received keeps the last run's values, and counts as inputs.
Plan without_communication(const Plan& plan);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// The plans of a group where one rank simulates all of them.
#pragma once

#include <vector>

#include "harness/world/world.h"
#include "impls/plan.h"

namespace commfuse {

/// Collective: every rank gives its plan, and rank 0 gets all of them, by rank; the others get
/// none. What comes is what runs, so tensors have no names, and inputs and outputs are not there.
std::vector<Plan> gather_plans(World& group, const Plan& plan);

}  // namespace commfuse

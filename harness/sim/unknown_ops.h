// SPDX-License-Identifier: Apache-2.0
// Cases whose ops a machine has no times of, found before anything is simulated.
#pragma once

#include <string>
#include <vector>

#include "harness/case.h"
#include "harness/sim/compute_model.h"

namespace commfuse {

/// Skips the rows that have such ops, with all of them as the reason; and where a link is to be
/// calibrated and compute_only has some, every row. Returns what all rows that would have run lack
/// together, in one line; empty if nothing, and at once for a model that knows all ops.
std::string skip_unknown_ops(std::vector<CaseGroup>& groups, const ComputeModel& model);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "harness/record/metrics.h"
#include "harness/sim/network.h"
#include "impls/plan.h"

namespace commfuse {

/// Of the compute ops of a plan one after the other, as without_communication(plan) runs: compute
/// ops share a lane, so nothing but the op before holds one up. `op_times` as op_times() has them.
IterationSummary quiet_summary(const Plan& plan, std::span<const Picoseconds> op_times);

}  // namespace commfuse

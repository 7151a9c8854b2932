// SPDX-License-Identifier: Apache-2.0
// What can be waited for in a plan, as spans that only lack their times.
#pragma once

#include <vector>

#include "harness/record/timeline.h"
#include "impls/plan.h"

namespace commfuse {

/// One span for every op that is no exchange, in plan order, then one for every message.
std::vector<Span> untimed_spans(const Plan& plan);

}  // namespace commfuse

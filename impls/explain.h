// SPDX-License-Identifier: Apache-2.0
// A plan for people: --explain and --explain=dot.
#pragma once

#include <string>

#include "impls/plan.h"

namespace commfuse {

/// One line per op: id, lane, stage, what it does on which views, what it waits for.
std::string explain_text(const Plan& plan, const Workload& workload);
/// Graphviz: one cluster per lane, dependencies as edges.
std::string explain_dot(const Plan& plan, const Workload& workload);
/// "gemm D=partial[0:8, :] ..." : one op in one line; used by verify and the executors' messages
/// too.
std::string describe(const Plan& plan, OpId op);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// A plan for people: --explain and --explain=dot.
#pragma once

#include <string>
#include <string_view>

#include "impls/plan.h"

namespace commfuse {

/// One line per op: id, lane, stage, what it does on which views, what it waits for.
std::string explain_text(const Plan& plan, const Workload& workload);
/// Graphviz: one cluster per lane with its order dotted, dependencies as solid arrows; one from a
/// message carries its number. `implementation` stands in the caption.
std::string explain_dot(const Plan& plan, const Workload& workload,
                        std::string_view implementation);
/// "gemm partial[0:8, :] = A[0:8, :] * D[0:16, :]^T": what an op does, in one line; messages of
/// executors use it too.
std::string describe(const Plan& plan, OpId op);
/// "rank 1 op 7 (compute lane: gemm partial[0:8, :] = ...)": where a message points to.
std::string where(const Plan& plan, OpId op);

}  // namespace commfuse

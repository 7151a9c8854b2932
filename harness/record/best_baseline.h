// SPDX-License-Identifier: Apache-2.0
// What CommFuse has to beat: a claim against plain alone is none.
#pragma once

#include <span>
#include <string>

#include "harness/record/record.h"
#include "harness/record/row_identity.h"

namespace commfuse {

/// The fastest schedule that is neither a form of commfuse nor a bound: plain, sliced or bulk, in
/// any form. `rows` are comparable and have a time. Null if there is none.
const Record* best_baseline(std::span<const Record* const> rows);

/// "best baseline: sliced:n=4, 1.25 x plain; commfuse:m=2 takes 0.93 of its time": the same in
/// words, and the fastest commfuse against it. Empty unless there are two baselines.
std::string baseline_note(std::span<const Record* const> rows, const ImplementationNames& names);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// Which of several forms of plain an overlapped schedule has to beat.
#pragma once

#include <span>
#include <string>

#include "harness/record/record.h"
#include "harness/record/row_identity.h"

namespace commfuse {

/// "best baseline: plain:collective=symmetric, 1.25 x plain; commfuse:m=2 takes 0.93 of its time":
/// the fastest form of plain, and the fastest other schedule against it. `rows` are comparable and
/// have a time. Empty unless two of them are forms of plain.
std::string best_baseline(std::span<const Record* const> rows, const ImplementationNames& names);

}  // namespace commfuse

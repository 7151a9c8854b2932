// SPDX-License-Identifier: Apache-2.0
// Says why nothing can run.
#pragma once

#include <string>

#include "tests/fakecuda/machine_state.h"

namespace commfuse::fake {

/// One line per blocked stream (rank, stream, label, operation, the counter with the value wanted
/// and the value there, operations behind it, and who would end it, or "nobody"), and one per
/// blocked host thread.
[[nodiscard]] std::string deadlock_report(const MachineState& state);

}  // namespace commfuse::fake

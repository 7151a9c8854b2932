// SPDX-License-Identifier: Apache-2.0
// One launch of commfuse-sim: from options to records, table and exit code.
#pragma once

#include "harness/exit_codes.h"
#include "harness/sim/sim_options.h"

namespace commfuse {

/// Returns the exit code. Throws UsageError.
int run_sim_session(const SimOptions& options);

}  // namespace commfuse

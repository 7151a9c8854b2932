// SPDX-License-Identifier: Apache-2.0
// Starts the ranks that the options and the launcher ask for and runs the session on each.
#pragma once

#include "harness/options.h"
#include "harness/world/interrupts.h"

namespace commfuse {

/// Ranks as threads of this process (at least one).
int launch_threads(const Options& options, Interrupts& interrupts);
/// This process as one MPI rank. Without MPI support this is a UsageError that says so.
int launch_processes(const Options& options, Interrupts& interrupts);

}  // namespace commfuse

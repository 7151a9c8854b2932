// SPDX-License-Identifier: Apache-2.0
// One launch on one rank: from options to records, table and exit code.
#pragma once

#include "harness/backend.h"
#include "harness/options.h"
#include "harness/world/watchdog.h"
#include "harness/world/world.h"

namespace commfuse {

/// Exit codes of INTEROP section 8 that a launch ends with.
enum ExitCode : int {
  kExitOk = 0,
  kExitInternal = 1,
  kExitMpi = 3,
  kExitAllSkipped = 5,
  kExitUsage = 6,
  kExitWrong = 7,
};

/// Collective; the same exit code on every rank. Throws UsageError on every rank alike.
int run_session(World& world, const Options& options, Backend& backend, Watchdog& watchdog);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// One launch on one rank: from options to records, table and exit code.
#pragma once

#include "harness/backend.h"
#include "harness/options.h"
#include "harness/world/watchdog.h"
#include "harness/world/world.h"

namespace commfuse {

// Exit codes of INTEROP section 8 that a session ends with; library errors, timeouts and interrupts
// have theirs where they arise.
constexpr int kExitOk = 0;
constexpr int kExitInternal = 1;
constexpr int kExitAllSkipped = 5;
constexpr int kExitUsage = 6;
constexpr int kExitWrong = 7;

/// Collective; the same exit code on every rank. Throws UsageError on every rank alike.
int run_session(World& world, const Options& options, Backend& backend, Watchdog& watchdog);

}  // namespace commfuse

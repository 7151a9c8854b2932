// SPDX-License-Identifier: Apache-2.0
// One launch on one rank: from options to records, table and exit code.
#pragma once

#include <functional>
#include <memory>

#include "harness/backend.h"
#include "harness/exit_codes.h"
#include "harness/options.h"
#include "harness/world/watchdog.h"
#include "harness/world/world.h"

namespace commfuse {

/// Collective. Throws Unsupported on every rank alike where the machine lacks what it needs.
using MakeBackend = std::function<std::unique_ptr<Backend>()>;

/// Collective; the same exit code on every rank. Throws UsageError on every rank alike. The backend
/// is made only where something is to run, so what just prints needs no device.
int run_session(World& world, const Options& options, const MakeBackend& make_backend,
                Watchdog& watchdog);

}  // namespace commfuse

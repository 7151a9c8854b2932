// SPDX-License-Identifier: Apache-2.0
// Which engines of a device move the blocks of a transport, by its profiler.
#pragma once

#include "harness/backend.h"
#include "harness/case.h"
#include "harness/world/world.h"

namespace commfuse {

/// Collective. Traces a few iterations of commfuse on this case's workload and transport and says,
/// on rank 0, how many count and whether copy engines alone made their copies. A missing part where
/// nothing was traced, or no trace counts.
SelfTestPart trace_transfers(Backend& backend, World& world, const CaseGroup& cases);

}  // namespace commfuse

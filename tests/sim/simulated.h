// SPDX-License-Identifier: Apache-2.0
// A workload under a schedule in simulated time, on a machine whose ops take their FLOPs at one
// rate and nothing else.
#pragma once

#include <string_view>
#include <vector>

#include "harness/sim/machine_model.h"
#include "harness/sim/simulation.h"
#include "impls/implementation.h"
#include "suite/workload.h"

namespace commfuse {

/// llama3-70b, bf16.
Workload large_workload(std::string_view name, std::int32_t ranks, std::int32_t tokens = 8192);

/// 700 TFLOP/s, 400 GB/s, 3 us.
MachineModel fast_machine();

/// Rank r sits at place r. Already run. The implementation must be able to cut the workload.
Simulation simulated(const Workload& workload, std::string_view implementation,
                     const MachineModel& machine, Protocol protocol = Protocol::put);

}  // namespace commfuse

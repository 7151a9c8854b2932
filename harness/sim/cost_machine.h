// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>

#include "harness/sim/machine_model.h"

namespace commfuse {

/// A machine whose ops take what a file of costs says: its network and places are those of
/// `machine`, a name as for find_machine(), or, where that is empty, ranks on one node that wait
/// for a link to be stated, with pairwise collectives. Its peak is the best gemm of the file.
/// A step of a collective has the latency that was fitted to those of the file, where it has some
/// (collective_fit.h). Throws UsageError.
MachineModel machine_with_costs(std::string_view machine, const std::filesystem::path& costs);

}  // namespace commfuse

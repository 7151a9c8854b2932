// SPDX-License-Identifier: Apache-2.0
// What the oracle expects where data only move (comm_only): sums and slices of what the ranks
// start with.
#pragma once

#include <cstdint>
#include <span>

#include "suite/oracle_linear.h"
#include "suite/workload.h"

namespace commfuse {

/// Sums over the ranks of rows of a partial, from stand-ins.
Rows reduced_data(const Workload& workload, TensorId partial, std::span<const std::int32_t> rows,
                  const Source& source);

/// Rows of a gathered buffer, each from the rank that starts with it.
Rows gathered_data(const Workload& workload, TensorId buffer, std::span<const std::int32_t> rows,
                   const Source& source);

}  // namespace commfuse

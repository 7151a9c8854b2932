// SPDX-License-Identifier: Apache-2.0
// The compute ops by their definitions, in double, one loop each. Written for reading: shapes in
// conformance tests are small.
#pragma once

#include <cstdint>

#include "suite/compute.h"
#include "tests/conformance/reference_memory.h"

namespace commfuse {

/// Runs `op` on the tensors of `rank`. Throws std::invalid_argument where the shapes of its views
/// do not fit together.
void run_compute(const Compute& op, std::int32_t rank, ReferenceMemory& memory);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// D = op(A) op(B) + C on host storage.
//
// One sgemm per strip, or fewer where strips touch (strips of B: one per strip); fp32 views are
// read and written where they lie. BLAS adds C in place, so a C that is not D is copied into D
// first: one pass over D that a GPU's epilogue does not pay. Narrow operands are expanded to fp32
// in blocks of rows, B as a whole, and a narrow D is rounded once per element.
#pragma once

#include <cstdint>

#include "harness/host/storage.h"
#include "suite/compute.h"

namespace commfuse {

/// Throws std::invalid_argument where the shapes of the views do not fit together.
void check_shapes(const Gemm& op, const Storage& storage);
/// Floats of workspace that run() needs. `expanded_b`: whether B's tensor is given in fp32.
std::int64_t workspace_floats(const Gemm& op, const Storage& storage, bool expanded_b);
/// `expanded_b` is the whole tensor of B in fp32, or null to read B from storage.
void run(const Gemm& op, const Storage& storage, const float* expanded_b, float* workspace);

}  // namespace commfuse

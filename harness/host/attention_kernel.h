// SPDX-License-Identifier: Apache-2.0
// Exact softmax attention on host storage.
//
// A block of query rows meets all keys that it can see: scores by sgemm, softmax in place, times V
// by sgemm. The query heads that share a kv head are stacked into one product. Workspace is one
// block of scores, so memory grows with the sequence, not with its square.
//
// Under a causal mask, rows are zigzag pairs (zigzag_position): even rows are positions 0, 1, ...
// and odd rows positions T-1, T-2, .... Of the keys, an even row 2i sees the even ones up to its
// own, and an odd row 2i+1 all even ones and the odd ones from its own on:
//
//              even keys 0 2 4 6   odd keys 1 3 5 7
//   row 0      #
//   row 4      # # #
//   row 5      # # # #                           # #
//   row 1      # # # #                       # # # #
//
// So even and odd keys are two matrices of twice the row distance, what a block cannot see is never
// computed, and only the square on the diagonal is masked.
//
// Measured on one core beside an sgemm of 1024 x 1024 x 1024 (kernels_benchmark, head_dim 128, a
// quarter of the queries): with OpenBLAS's AVX-512 kernels 0.73 to 0.79 of its rate without a mask
// and 0.55 (1024 tokens) to 0.74 (4096) with one, its diagonal counted as visible pairs only; with
// its slower SSE3 kernels 0.85 to 0.95 and 0.75 to 0.88.
#pragma once

#include <cstdint>

#include "harness/host/storage.h"
#include "suite/compute.h"

namespace commfuse {

/// Throws std::invalid_argument where shapes do not fit together, k or v has strips, or, under a
/// causal mask, a query row is no row of the keys' sequence.
void check_shapes(const Attention& op, const Storage& storage);
/// Floats of workspace that run() needs.
std::int64_t workspace_floats(const Attention& op, const Storage& storage);
/// A weight that underflows is 0, so one-hot scores give the row of V exactly.
void run(const Attention& op, const Storage& storage, float* workspace);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// The exact gradient of softmax attention on host storage.
//
// One kv head after the other: its keys, values and the sums of their gradients are expanded into
// fp32; blocks of query rows, cut and stacked as in attention_kernel.h, then meet the keys that
// they see. Per block, scores and slopes of the probabilities by sgemm, one pass over their rows,
// and three products: dV += P^T dO, dK += dS^T Q, dQ = dS K. Workspace is two blocks of scores and
// four matrices of one kv head, so memory grows with the sequence, not with its square.
#pragma once

#include <cstdint>

#include "harness/host/storage.h"
#include "suite/compute.h"

namespace commfuse {

/// Throws std::invalid_argument where shapes do not fit together, k, v, dk or dv has strips, or,
/// under a causal mask, a query row is no row of the keys' sequence.
void check_shapes(const AttentionGradient& op, const Storage& storage);
/// Floats of workspace that run() needs.
std::int64_t workspace_floats(const AttentionGradient& op, const Storage& storage);
/// dk and dv are summed in fp32 over all rows of the op, added to what they hold where the op adds,
/// and rounded once.
void run(const AttentionGradient& op, const Storage& storage, float* workspace);

}  // namespace commfuse

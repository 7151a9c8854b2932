// SPDX-License-Identifier: Apache-2.0
// A workload of no model, in which everything moves that can: an all-to-all whose blocks the next
// stage reduces and scatters, a gather whose product is reduced for all, and a stage that reads
// what was scattered.
#pragma once

#include <cstdint>

#include "suite/workload.h"

namespace commfuse {

/// Tensors by id. On each of R ranks, in blocks of 2 rows:
///   exchange  send = X W1^T, all-to-all into received
///   reduce    partial = received W2^T, reduce-scatter into scattered
///   sum       gather of G; share = G W3^T with weights of each rank's own; all-reduce into sum
///   last      last = scattered W4^T
/// Outputs are received, sum and last; scattered is none. Without `filled`, no input fills G.
struct MovingWorkload {
  enum Id : TensorId { x, w1, send, received, w2, partial, scattered, g, w3, share, sum, w4, last };
  static Workload build(std::int32_t ranks, DType dtype, bool filled);
};

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// The gradient of exact softmax attention as products and softmaxes in a workspace that holds one
// block of scores and one of their slopes, cut as in attention.h.
//
// Per block of query rows and batch of heads: scores and slopes of the probabilities in fp32 by one
// product each per range of keys; one kernel makes probabilities and slopes of the scores of them,
// in the tensors' dtype; three products per range give dV, dK and dQ. dK and dV are summed in fp32
// over blocks and over the heads that share a kv head, where they lie if they are fp32, else in the
// workspace; then they are rounded once. Blocks have half as many rows as those of attention, so
// that scores and slopes take the room that scores alone take there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/cuda/device_storage.h"
#include "harness/cuda/device_view.h"
#include "harness/cuda/matmul.h"
#include "harness/cuda/softmax_rows.h"
#include "suite/compute.h"

namespace commfuse {

/// The packed form of `source` goes to `target`.
struct GradientMove {
  DeviceView target;
  DeviceView source;
};

/// One block and batch of heads, in this order.
struct AttentionGradientStep {
  std::vector<Matmul> scores;  // by the keys of dO V^T too
  SoftmaxGradientRows softmax;
  std::vector<Matmul> products;          // dV and dK, then dQ
  std::optional<GradientMove> rounding;  // of dQ
};

/// In this order.
struct AttentionGradientPlan {
  std::byte* zeros = nullptr;  // in the workspace, set to 0
  std::int64_t zero_bytes = 0;
  std::vector<GradientMove> copies;  // zeros into fp32 dK and dV
  std::vector<AttentionGradientStep> steps;
  std::vector<GradientMove> sums;  // of narrow dK and dV: added where the op adds, else rounded
};

/// Why the op's shapes or dtypes cannot be served, or empty. Its shapes fit (misfit()).
std::string unsupported_attention_gradient(const AttentionGradient& op,
                                           const DeviceStorage& storage);

/// Bytes of workspace that the plan uses.
std::int64_t workspace_bytes(const AttentionGradient& op, const DeviceStorage& storage);

/// `workspace` is 256-byte aligned and is not read or written here.
AttentionGradientPlan attention_gradient_plan(const AttentionGradient& op,
                                              const DeviceStorage& storage, std::byte* workspace);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// Exact softmax attention as products and softmaxes in a workspace that holds one block of scores,
// so memory grows with the sequence, not with its square.
//
// Per block of query rows and batch of heads: scores in fp32 by one product per range of keys,
// probabilities in the tensors' dtype, times V by one product per range. Where a narrow block meets
// two ranges, their sum is kept in fp32 and rounded once. Nothing is copied: keys of one parity are
// a matrix of twice the row distance, heads are columns.
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

/// One block and batch of heads, in this order.
struct AttentionStep {
  struct Rounding {
    DeviceView target;
    DeviceView source;
  };
  std::vector<Matmul> scores;
  SoftmaxRows softmax;
  std::vector<Matmul> outputs;
  std::optional<Rounding> rounding;
};

/// Why the op's shapes or dtypes cannot be served, or empty. Its shapes fit (misfit()).
std::string unsupported_attention(const Attention& op, const DeviceStorage& storage);

/// Bytes of workspace that the steps use.
std::int64_t workspace_bytes(const Attention& op, const DeviceStorage& storage);

/// `workspace` is 256-byte aligned and is not read or written here.
std::vector<AttentionStep> attention_steps(const Attention& op, const DeviceStorage& storage,
                                           std::byte* workspace);

}  // namespace commfuse

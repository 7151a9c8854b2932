// SPDX-License-Identifier: Apache-2.0
// Operands of the products of attention and its gradient as matrices, one per head of a batch.
// Plain C++.
#pragma once

#include <cstdint>

#include "harness/cuda/attention_blocks.h"
#include "harness/cuda/device_storage.h"
#include "harness/cuda/device_view.h"
#include "harness/cuda/matmul.h"
#include "harness/cuda/softmax_rows.h"
#include "suite/compute.h"

namespace commfuse {

/// Bytes; what gemms like best.
constexpr std::int64_t kMatrixAlignment = 256;

constexpr std::int64_t rounded_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Elements from row to row of scores of `tokens` keys, whose ranges begin at aligned columns.
std::int64_t score_row_pitch(std::int64_t tokens, Mask mask);

/// Where the block's ranges of keys lie among the columns of its scores.
void place_parts(const QueryBlock& block, ScorePart (&parts)[2]);

/// Operands of one op: heads of `head_dim` columns each.
class HeadMatrices {
 public:
  HeadMatrices(const DeviceStorage& storage, std::int32_t head_dim)
      : storage_(storage), head_dim_(head_dim) {}

  /// The block's rows of q or what has its rows, which is joined().
  [[nodiscard]] BatchedMatrix queries(const View& view, const QueryBlock& block,
                                      const HeadBatch& batch) const;
  /// The range's rows of k or what has its rows.
  [[nodiscard]] BatchedMatrix keys(const View& view, const KeyRange& range,
                                   const HeadBatch& batch) const;
  /// A matrix per head of the batch with the block's rows, as heads in strips.
  [[nodiscard]] DeviceView view(const QueryBlock& block, const HeadBatch& batch,
                                const BatchedMatrix& matrix, DType dtype) const;

 private:
  const DeviceStorage& storage_;
  std::int32_t head_dim_;
};

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/host/attention_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "harness/host/blas.h"
#include "harness/host/float_conversion.h"
#include "harness/host/runs.h"
#include "harness/host/score_blocks.h"
#include "harness/host/score_rows.h"

namespace commfuse {
namespace {

std::int64_t group_of(const Attention& op) { return op.heads / op.kv_heads; }

DType dtype_of(const View& view, const Storage& storage) {
  return storage.tensor(view.tensor).dtype;
}

/// Computes blocks of one attention op in a workspace.
class BlockRunner {
 public:
  BlockRunner(const Attention& op, const Storage& storage, float* workspace)
      : op_(op), storage_(storage), group_(group_of(op)), pitch_(score_pitch(op.k.rows)) {
    const std::int64_t rows = query_rows_per_block(group_) * group_;
    stacked_ = workspace;
    sums_ = stacked_ + rows * op.head_dim;
    scores_ = sums_ + rows;
    float* rest = scores_ + rows * pitch_;
    k_ = in_fp32(op.k, rest);
    v_ = in_fp32(op.v, rest);
  }

  void run(const ScoreBlock& block) {
    for (std::int32_t kv_head = 0; kv_head < op_.kv_heads; ++kv_head) {
      load_queries(block, kv_head);
      multiply_by_keys(block, kv_head);
      softmax(block);
      multiply_by_values(block, kv_head);
      store_outputs(block, kv_head);
    }
  }

 private:
  /// A whole k or v: where it lies, or expanded into `rest`, which then moves on.
  Matrix in_fp32(const View& view, float*& rest) const {
    const Tensor& tensor = storage_.tensor(view.tensor);
    if (!is_narrow(tensor.dtype)) {
      return {.data = reinterpret_cast<const float*>(storage_.at(view)), .ld = tensor.cols};
    }
    float* space = rest;
    rest += view.elements();
    storage_.read(view, {space, static_cast<std::size_t>(view.elements())});
    return {.data = space, .ld = view.cols};
  }

  /// Keys or values of one range, columns of one head.
  [[nodiscard]] Matrix part(const Matrix& whole, const KeyStretch& range,
                            std::int32_t kv_head) const {
    return {.data = whole.data + range.first * whole.ld + kv_head * op_.head_dim,
            .ld = whole.ld * range.step};
  }

  /// Element offset, in the block of view's tensor, of a block's row and the first query head that
  /// reads kv_head. Heads of the group follow in the same row.
  [[nodiscard]] std::int64_t group_offset(const View& view, const ScoreBlock& block,
                                          std::int64_t row, std::int32_t kv_head) const {
    return packed_row_offset(view, storage_.tensor(view.tensor), block.first + row * block.step) +
           kv_head * group_ * op_.head_dim;
  }

  // A row and its heads of one group are consecutive rows of `stacked_`, which holds Q, then O.

  void load_queries(const ScoreBlock& block, std::int32_t kv_head) {
    const std::int64_t width = group_ * op_.head_dim;
    const DType dtype = dtype_of(op_.q, storage_);
    const std::byte* q = storage_.data(op_.q.tensor);
    for (std::int64_t row = 0; row < block.rows; ++row) {
      const std::int64_t from = group_offset(op_.q, block, row, kv_head);
      load_floats(dtype, q + from * bytes_of(dtype), stacked_ + row * width, width);
    }
  }

  void multiply_by_keys(const ScoreBlock& block, std::int32_t kv_head) {
    const float scale = 1.0F / std::sqrt(static_cast<float>(op_.head_dim));
    float* scores = scores_;
    for (const KeyStretch& range : block.keys) {
      if (range.count == 0) continue;
      Matrix keys = part(k_, range, kv_head);
      keys.transposed = true;
      sgemm(block.rows * group_, range.count, op_.head_dim, scale,
            {.data = stacked_, .ld = op_.head_dim}, keys, 0.0F, scores, pitch_);
      scores += range.count;
    }
  }

  /// Leaves rows undivided by their sums: dividing the few columns of O instead is cheaper.
  void softmax(const ScoreBlock& block) {
    constexpr float kHidden = -std::numeric_limits<float>::infinity();
    for (std::int64_t row = 0; row < block.rows * group_; ++row) {
      float* scores = scores_ + row * pitch_;
      const auto [begin, end] = block.hidden(row / group_);
      std::fill(scores + begin, scores + end, kHidden);
      sums_[row] = exponentiate(scores, block.columns());
    }
  }

  void multiply_by_values(const ScoreBlock& block, std::int32_t kv_head) {
    const float* weights = scores_;
    float beta = 0.0F;
    for (const KeyStretch& range : block.keys) {
      if (range.count == 0) continue;
      sgemm(block.rows * group_, op_.head_dim, range.count, 1.0F, {.data = weights, .ld = pitch_},
            part(v_, range, kv_head), beta, stacked_, op_.head_dim);
      weights += range.count;
      beta = 1.0F;
    }
    for (std::int64_t row = 0; row < block.rows * group_; ++row) {
      divide(stacked_ + row * op_.head_dim, sums_[row], op_.head_dim);
    }
  }

  void store_outputs(const ScoreBlock& block, std::int32_t kv_head) {
    const std::int64_t width = group_ * op_.head_dim;
    const DType dtype = dtype_of(op_.o, storage_);
    std::byte* o = storage_.data(op_.o.tensor);
    for (std::int64_t row = 0; row < block.rows; ++row) {
      const std::int64_t to = group_offset(op_.o, block, row, kv_head);
      store_floats(dtype, stacked_ + row * width, o + to * bytes_of(dtype), width);
    }
  }

  const Attention& op_;
  const Storage& storage_;
  std::int64_t group_;
  std::int64_t pitch_;
  float* stacked_ = nullptr;
  float* sums_ = nullptr;
  float* scores_ = nullptr;
  Matrix k_;
  Matrix v_;
};

}  // namespace

void check_shapes(const Attention& op, const Storage& storage) {
  const std::int64_t width = std::int64_t{op.heads} * op.head_dim;
  const std::int64_t kv_width = std::int64_t{op.kv_heads} * op.head_dim;
  const bool queries_fit = op.q.cols == width && op.o.cols == width &&
                           op.q.total_rows() == op.o.total_rows() && op.heads % op.kv_heads == 0;
  const bool keys_fit = op.k.cols == kv_width && op.v.cols == kv_width && op.k.rows == op.v.rows &&
                        op.k.strips == 1 && op.v.strips == 1;
  if (!queries_fit || !keys_fit || (op.mask == Mask::causal && !in_sequence(op.q, op.k.rows))) {
    throw std::invalid_argument(fmt::format(
        "cannot attend: {} from q {}, k {}, v {} with {} heads on {} of {} columns",
        describe(op.o, storage.tensor(op.o.tensor)), describe(op.q, storage.tensor(op.q.tensor)),
        describe(op.k, storage.tensor(op.k.tensor)), describe(op.v, storage.tensor(op.v.tensor)),
        op.heads, op.kv_heads, op.head_dim));
  }
}

std::int64_t workspace_floats(const Attention& op, const Storage& storage) {
  const std::int64_t rows = query_rows_per_block(group_of(op)) * group_of(op);
  std::int64_t floats = rows * (op.head_dim + 1 + score_pitch(op.k.rows));
  if (is_narrow(dtype_of(op.k, storage))) floats += op.k.elements();
  if (is_narrow(dtype_of(op.v, storage))) floats += op.v.elements();
  return floats;
}

void run(const Attention& op, const Storage& storage, float* workspace) {
  BlockRunner runner(op, storage, workspace);
  for_score_blocks(op.q, op.k.rows, op.mask, query_rows_per_block(group_of(op)),
                   [&](const ScoreBlock& block) { runner.run(block); });
}

}  // namespace commfuse

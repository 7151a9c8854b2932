// SPDX-License-Identifier: Apache-2.0
#include "harness/host/attention_gradient_kernel.h"

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

/// Sizes of the pieces of the workspace, in floats.
struct GradientSpace {
  explicit GradientSpace(const AttentionGradient& op)
      : group(op.heads / op.kv_heads),
        rows(query_rows_per_block(group) * group),
        pitch(score_pitch(op.k.rows)),
        stacked(rows * op.head_dim),
        scores(rows * pitch),
        head(std::int64_t{op.k.rows} * op.head_dim) {}

  std::int64_t group;    // query heads of a kv head
  std::int64_t rows;     // of scores in flight
  std::int64_t pitch;    // of scores
  std::int64_t stacked;  // queries of a block
  std::int64_t scores;
  std::int64_t head;  // keys of one kv head

  [[nodiscard]] std::int64_t floats() const { return 2 * stacked + 2 * scores + 4 * head; }
};

/// One kv head of an op at a time, block by block.
class GradientRunner {
 public:
  GradientRunner(const AttentionGradient& op, const Storage& storage, float* workspace)
      : op_(op), storage_(storage), space_(op) {
    float* next = workspace;
    const auto take = [&](std::int64_t floats) {
      float* const piece = next;
      next += floats;
      return piece;
    };
    q_ = take(space_.stacked);
    d_o_ = take(space_.stacked);
    probabilities_ = take(space_.scores);
    slopes_ = take(space_.scores);
    for (float** piece : {&k_, &v_, &dk_, &dv_}) *piece = take(space_.head);
  }

  void run(std::int32_t kv_head) {
    load_head(op_.k, kv_head, k_);
    load_head(op_.v, kv_head, v_);
    std::fill_n(dk_, space_.head, 0.0F);
    std::fill_n(dv_, space_.head, 0.0F);
    for_score_blocks(op_.q, op_.k.rows, op_.mask, query_rows_per_block(space_.group),
                     [&](const ScoreBlock& block) { run(block, kv_head); });
    store_head(dk_, op_.dk, kv_head);
    store_head(dv_, op_.dv, kv_head);
  }

 private:
  void run(const ScoreBlock& block, std::int32_t kv_head) {
    load_queries(op_.q, block, kv_head, q_);
    load_queries(op_.d_o, block, kv_head, d_o_);
    multiply_by_keys(block, scale(), q_, k_, probabilities_);
    multiply_by_keys(block, 1.0F, d_o_, v_, slopes_);
    differentiate(block);
    add_to_keys(block, probabilities_, d_o_, dv_);
    add_to_keys(block, slopes_, q_, dk_);
    multiply_by_slopes(block);
    store_queries(block, kv_head);
  }

  [[nodiscard]] float scale() const { return 1.0F / std::sqrt(static_cast<float>(op_.head_dim)); }

  /// Where a row of one kv head lies, in its tensor's block.
  [[nodiscard]] std::byte* head_row(const View& view, std::int64_t row, std::int32_t kv_head,
                                    DType dtype) const {
    const std::int64_t at = packed_row_offset(view, storage_.tensor(view.tensor), row) +
                            std::int64_t{kv_head} * op_.head_dim;
    return storage_.data(view.tensor) + at * bytes_of(dtype);
  }

  void load_head(const View& view, std::int32_t kv_head, float* packed) const {
    const DType dtype = storage_.tensor(view.tensor).dtype;
    for (std::int64_t row = 0; row < view.rows; ++row) {
      load_floats(dtype, head_row(view, row, kv_head, dtype), packed + row * op_.head_dim,
                  op_.head_dim);
    }
  }

  void store_head(float* sums, const View& view, std::int32_t kv_head) const {
    const DType dtype = storage_.tensor(view.tensor).dtype;
    for (std::int64_t row = 0; row < view.rows; ++row) {
      std::byte* const target = head_row(view, row, kv_head, dtype);
      float* const sum = sums + row * op_.head_dim;
      if (op_.adds) add_floats(dtype, target, sum, op_.head_dim);
      store_floats(dtype, sum, target, op_.head_dim);
    }
  }

  // A row and its heads of one group are consecutive rows of the stacked queries.

  [[nodiscard]] std::byte* group_row(const View& view, const ScoreBlock& block, std::int64_t row,
                                     std::int32_t kv_head, DType dtype) const {
    const std::int64_t at =
        packed_row_offset(view, storage_.tensor(view.tensor), block.first + row * block.step) +
        kv_head * space_.group * op_.head_dim;
    return storage_.data(view.tensor) + at * bytes_of(dtype);
  }

  void load_queries(const View& view, const ScoreBlock& block, std::int32_t kv_head,
                    float* stacked) const {
    const std::int64_t width = space_.group * op_.head_dim;
    const DType dtype = storage_.tensor(view.tensor).dtype;
    for (std::int64_t row = 0; row < block.rows; ++row) {
      load_floats(dtype, group_row(view, block, row, kv_head, dtype), stacked + row * width, width);
    }
  }

  void store_queries(const ScoreBlock& block, std::int32_t kv_head) const {
    const std::int64_t width = space_.group * op_.head_dim;
    const DType dtype = storage_.tensor(op_.dq.tensor).dtype;
    for (std::int64_t row = 0; row < block.rows; ++row) {
      store_floats(dtype, q_ + row * width, group_row(op_.dq, block, row, kv_head, dtype), width);
    }
  }

  [[nodiscard]] std::int64_t stacked_rows(const ScoreBlock& block) const {
    return block.rows * space_.group;
  }

  /// scores = factor * queries keys^T, of the keys that the block sees.
  void multiply_by_keys(const ScoreBlock& block, float factor, const float* queries,
                        const float* keys, float* scores) const {
    for (const KeyStretch& stretch : block.keys) {
      if (stretch.count == 0) continue;
      sgemm(stacked_rows(block), stretch.count, op_.head_dim, factor,
            {.data = queries, .ld = op_.head_dim},
            {.data = keys + stretch.first * op_.head_dim,
             .ld = stretch.step * op_.head_dim,
             .transposed = true},
            0.0F, scores, space_.pitch);
      scores += stretch.count;
    }
  }

  /// Scores become probabilities, and slopes of those become slopes of scores, which hold the scale
  /// of dQ and dK.
  void differentiate(const ScoreBlock& block) const {
    constexpr float kHidden = -std::numeric_limits<float>::infinity();
    for (std::int64_t row = 0; row < stacked_rows(block); ++row) {
      float* const scores = probabilities_ + row * space_.pitch;
      const auto [begin, end] = block.hidden(row / space_.group);
      std::fill(scores + begin, scores + end, kHidden);
      const float sum = exponentiate(scores, block.columns());
      divide(scores, sum, block.columns());
      softmax_gradient(scores, slopes_ + row * space_.pitch, scale(), block.columns());
    }
  }

  /// sums += scores^T queries, for the keys that the block sees.
  void add_to_keys(const ScoreBlock& block, const float* scores, const float* queries,
                   float* sums) const {
    for (const KeyStretch& stretch : block.keys) {
      if (stretch.count == 0) continue;
      sgemm(stretch.count, op_.head_dim, stacked_rows(block), 1.0F,
            {.data = scores, .ld = space_.pitch, .transposed = true},
            {.data = queries, .ld = op_.head_dim}, 1.0F, sums + stretch.first * op_.head_dim,
            stretch.step * op_.head_dim);
      scores += stretch.count;
    }
  }

  /// dQ = dS K, in the place of Q, which nothing needs any more.
  void multiply_by_slopes(const ScoreBlock& block) const {
    const float* slopes = slopes_;
    float beta = 0.0F;
    for (const KeyStretch& stretch : block.keys) {
      if (stretch.count == 0) continue;
      sgemm(stacked_rows(block), op_.head_dim, stretch.count, 1.0F,
            {.data = slopes, .ld = space_.pitch},
            {.data = k_ + stretch.first * op_.head_dim, .ld = stretch.step * op_.head_dim}, beta,
            q_, op_.head_dim);
      slopes += stretch.count;
      beta = 1.0F;
    }
  }

  const AttentionGradient& op_;
  const Storage& storage_;
  GradientSpace space_;
  float* q_ = nullptr;  // stacked, then dQ
  float* d_o_ = nullptr;
  float* probabilities_ = nullptr;
  float* slopes_ = nullptr;
  float* k_ = nullptr;  // of one kv head
  float* v_ = nullptr;
  float* dk_ = nullptr;
  float* dv_ = nullptr;
};

}  // namespace

void check_shapes(const AttentionGradient& op, const Storage& storage) {
  std::string reason = misfit(op);
  for (const View& view : {op.k, op.v, op.dk, op.dv}) {
    if (reason.empty() && view.strips != 1) {
      reason = fmt::format("{} has strips", describe(view, storage.tensor(view.tensor)));
    }
  }
  if (reason.empty() && op.mask == Mask::causal && !in_sequence(op.q, op.k.rows)) {
    reason = fmt::format("{} is not within a sequence of {}",
                         describe(op.q, storage.tensor(op.q.tensor)), op.k.rows);
  }
  if (!reason.empty()) throw std::invalid_argument("cannot differentiate attention: " + reason);
}

std::int64_t workspace_floats(const AttentionGradient& op, const Storage& /*storage*/) {
  return GradientSpace(op).floats();
}

void run(const AttentionGradient& op, const Storage& storage, float* workspace) {
  GradientRunner runner(op, storage, workspace);
  for (std::int32_t kv_head = 0; kv_head < op.kv_heads; ++kv_head) runner.run(kv_head);
}

}  // namespace commfuse

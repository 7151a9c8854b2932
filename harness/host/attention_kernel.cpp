// SPDX-License-Identifier: Apache-2.0
#include "harness/host/attention_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "harness/host/blas.h"
#include "harness/host/float_conversion.h"
#include "harness/host/runs.h"
#include "harness/host/simd.h"
#include "harness/host/vector_math.h"

namespace commfuse {
namespace {

/// Rows of scores in flight, all heads of a group together: BLAS is near its best rate from here
/// on, and more would waste more on the masked diagonal.
constexpr std::int64_t kScoreRows = 256;
constexpr std::int64_t kLeastQueryRows = 16;

/// Keys first, first + step, ...
struct KeyRange {
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
};

/// Query rows whose visible keys are alike. Rows are packed rows of the q view.
struct Block {
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t rows = 0;
  std::array<KeyRange, 2> keys;
  /// Of row i's scores, those from hidden_begin + i * begin_step up to hidden_end + i * end_step
  /// are masked.
  std::int64_t hidden_begin = 0;
  std::int64_t begin_step = 0;
  std::int64_t hidden_end = 0;
  std::int64_t end_step = 0;

  /// Scores per row, the hidden ones of the diagonal included.
  [[nodiscard]] std::int64_t columns() const { return keys[0].count + keys[1].count; }
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> hidden(std::int64_t row) const {
    return {hidden_begin + row * begin_step, hidden_end + row * end_step};
  }
};

std::int64_t group_of(const Attention& op) { return op.heads / op.kv_heads; }

std::int64_t query_rows_per_block(const Attention& op) {
  return std::max(kLeastQueryRows, kScoreRows / group_of(op));
}

/// Row distance of the scores: whole cache lines, and no power of two, which would map a column
/// onto few cache sets.
std::int64_t score_pitch(const Attention& op) { return (op.k.rows + 15) / 16 * 16 + 16; }

DType dtype_of(const View& view, const Storage& storage) {
  return storage.tensor(view.tensor).dtype;
}

/// Replaces a row of scores by e^(score - largest), hidden ones by 0, and returns their sum.
COMMFUSE_SIMD float exponentiate(float* scores, std::int64_t count) {
  float largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < count; ++i) largest = scores[i] > largest ? scores[i] : largest;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) {
    scores[i] = vector_exp(scores[i] - largest);
    sum += scores[i];
  }
  return sum;
}

COMMFUSE_SIMD void divide(float* values, float divisor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] /= divisor;
}

/// Computes blocks of one attention op in a workspace.
class BlockRunner {
 public:
  BlockRunner(const Attention& op, const Storage& storage, float* workspace)
      : op_(op), storage_(storage), group_(group_of(op)), pitch_(score_pitch(op)) {
    const std::int64_t rows = query_rows_per_block(op) * group_;
    stacked_ = workspace;
    sums_ = stacked_ + rows * op.head_dim;
    scores_ = sums_ + rows;
    float* rest = scores_ + rows * pitch_;
    k_ = in_fp32(op.k, rest);
    v_ = in_fp32(op.v, rest);
  }

  void run(const Block& block) {
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
  [[nodiscard]] Matrix part(const Matrix& whole, const KeyRange& range,
                            std::int32_t kv_head) const {
    return {.data = whole.data + range.first * whole.ld + kv_head * op_.head_dim,
            .ld = whole.ld * range.step};
  }

  /// Element offset, in the block of view's tensor, of a block's row and the first query head that
  /// reads kv_head. Heads of the group follow in the same row.
  [[nodiscard]] std::int64_t group_offset(const View& view, const Block& block, std::int64_t row,
                                          std::int32_t kv_head) const {
    return packed_row_offset(view, storage_.tensor(view.tensor), block.first + row * block.step) +
           kv_head * group_ * op_.head_dim;
  }

  // A row and its heads of one group are consecutive rows of `stacked_`, which holds Q, then O.

  void load_queries(const Block& block, std::int32_t kv_head) {
    const std::int64_t width = group_ * op_.head_dim;
    const DType dtype = dtype_of(op_.q, storage_);
    const std::byte* q = storage_.data(op_.q.tensor);
    for (std::int64_t row = 0; row < block.rows; ++row) {
      const std::int64_t from = group_offset(op_.q, block, row, kv_head);
      load_floats(dtype, q + from * bytes_of(dtype), stacked_ + row * width, width);
    }
  }

  void multiply_by_keys(const Block& block, std::int32_t kv_head) {
    const float scale = 1.0F / std::sqrt(static_cast<float>(op_.head_dim));
    float* scores = scores_;
    for (const KeyRange& range : block.keys) {
      if (range.count == 0) continue;
      Matrix keys = part(k_, range, kv_head);
      keys.transposed = true;
      sgemm(block.rows * group_, range.count, op_.head_dim, scale,
            {.data = stacked_, .ld = op_.head_dim}, keys, 0.0F, scores, pitch_);
      scores += range.count;
    }
  }

  /// Leaves rows undivided by their sums: dividing the few columns of O instead is cheaper.
  void softmax(const Block& block) {
    constexpr float kHidden = -std::numeric_limits<float>::infinity();
    for (std::int64_t row = 0; row < block.rows * group_; ++row) {
      float* scores = scores_ + row * pitch_;
      const auto [begin, end] = block.hidden(row / group_);
      std::fill(scores + begin, scores + end, kHidden);
      sums_[row] = exponentiate(scores, block.columns());
    }
  }

  void multiply_by_values(const Block& block, std::int32_t kv_head) {
    const float* weights = scores_;
    float beta = 0.0F;
    for (const KeyRange& range : block.keys) {
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

  void store_outputs(const Block& block, std::int32_t kv_head) {
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

/// Rows that see every key.
void run_full(const Attention& op, BlockRunner& runner) {
  const std::int64_t step = query_rows_per_block(op);
  for (std::int64_t row = 0; row < op.q.total_rows(); row += step) {
    runner.run({.first = row,
                .rows = std::min(step, op.q.total_rows() - row),
                .keys = {KeyRange{.count = op.k.rows}}});
  }
}

/// `rows` rows 2i, 2i + 2, ... of the sequence, the first of them at packed row `packed`.
Block even_block(std::int64_t packed, std::int64_t i, std::int64_t rows) {
  return {.first = packed,
          .step = 2,
          .rows = rows,
          .keys = {KeyRange{.first = 0, .step = 2, .count = i + rows}},
          .hidden_begin = i + 1,
          .begin_step = 1,
          .hidden_end = i + rows};
}

/// `rows` rows 2i + 1, 2i + 3, ... of a sequence of `tokens`.
Block odd_block(std::int64_t packed, std::int64_t i, std::int64_t rows, std::int64_t tokens) {
  const std::int64_t even_keys = (tokens + 1) / 2;
  const std::int64_t odd_keys = tokens / 2;
  return {.first = packed,
          .step = 2,
          .rows = rows,
          .keys = {KeyRange{.first = 0, .step = 2, .count = even_keys},
                   KeyRange{.first = 2 * i + 1, .step = 2, .count = odd_keys - i}},
          .hidden_begin = even_keys,
          .hidden_end = even_keys,
          .end_step = 1};
}

/// One strip of queries, rows [row, row + rows) of the sequence.
void run_causal_strip(const Attention& op, BlockRunner& runner, std::int64_t packed,
                      std::int64_t row, std::int64_t rows) {
  const std::int64_t limit = query_rows_per_block(op);
  for (const std::int64_t parity : {0, 1}) {
    const std::int64_t skipped = row % 2 == parity ? 0 : 1;
    const std::int64_t count = (rows - skipped + 1) / 2;
    const std::int64_t begin = (row + skipped) / 2;
    for (std::int64_t done = 0; done < count; done += limit) {
      const std::int64_t at = packed + skipped + 2 * done;
      const std::int64_t block_rows = std::min(limit, count - done);
      runner.run(parity == 0 ? even_block(at, begin + done, block_rows)
                             : odd_block(at, begin + done, block_rows, op.k.rows));
    }
  }
}

bool in_sequence(const View& queries, std::int64_t tokens) {
  const View last = queries.strip(queries.strips - 1);
  return queries.row >= 0 && last.row >= 0 && queries.row + queries.rows <= tokens &&
         last.row + last.rows <= tokens;
}

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
  const std::int64_t rows = query_rows_per_block(op) * group_of(op);
  std::int64_t floats = rows * (op.head_dim + 1 + score_pitch(op));
  if (is_narrow(dtype_of(op.k, storage))) floats += op.k.elements();
  if (is_narrow(dtype_of(op.v, storage))) floats += op.v.elements();
  return floats;
}

void run(const Attention& op, const Storage& storage, float* workspace) {
  BlockRunner runner(op, storage, workspace);
  if (op.mask == Mask::full) return run_full(op, runner);
  for (std::int32_t s = 0; s < op.q.strips; ++s) {
    run_causal_strip(op, runner, std::int64_t{s} * op.q.rows, op.q.strip(s).row, op.q.rows);
  }
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/cuda/attention_blocks.h"
#include "harness/cuda/packed_rows.h"

namespace commfuse {
namespace {

constexpr std::int64_t kAlignment = 256;  // bytes; what gemms like best
constexpr std::int64_t kFloatBytes = 4;
/// Score columns where a range may begin, so that every dtype is aligned.
constexpr std::int64_t kColumns = kAlignment / 2;

std::int64_t rounded_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

DType dtype_of(const Attention& op, const DeviceStorage& storage) {
  return storage.tensor(op.q.tensor).dtype;
}

/// Places of the pieces in the workspace, in bytes from its begin.
struct Space {
  std::int64_t pitch = 0;  // of scores and probabilities, elements
  std::int64_t scores = 0;
  std::int64_t probabilities = 0;
  std::int64_t sums = 0;
  std::int64_t bytes = 0;
};

Space space_for(const Attention& op, DType dtype) {
  const std::int64_t most_rows = std::min(rows_per_block(op), op.q.total_rows());
  const std::int64_t rows = most_rows * head_batches(op).front().heads;
  Space space;
  space.pitch = op.mask == Mask::full ? rounded_up(op.k.rows, kColumns)
                                      : rounded_up((op.k.rows + 1) / 2, kColumns) +
                                            rounded_up(op.k.rows / 2, kColumns);
  space.bytes = rows * space.pitch * kFloatBytes;
  if (!is_narrow(dtype)) return space;  // probabilities replace scores, sums are the output
  space.probabilities = space.bytes;
  space.bytes += rows * space.pitch * bytes_of(dtype);
  space.sums = space.bytes;
  if (op.mask == Mask::causal) {
    space.bytes += rounded_up(rows * op.head_dim * kFloatBytes, kAlignment);
  }
  return space;
}

/// Builds the step of one block and batch of heads.
class StepBuilder {
 public:
  StepBuilder(const Attention& op, const DeviceStorage& storage, std::byte* workspace)
      : op_(op),
        q_(joined(op.q)),
        o_(joined(op.o)),
        storage_(storage),
        workspace_(workspace),
        dtype_(dtype_of(op, storage)),
        space_(space_for(op, dtype_)) {}

  [[nodiscard]] AttentionStep step(const QueryBlock& block, const HeadBatch& batch) const {
    AttentionStep step;
    step.softmax = softmax(block, batch);
    // Narrow sums of two products would be rounded twice.
    const bool round = is_narrow(dtype_) && block.keys[1].count > 0;
    const BatchedMatrix o = heads_of(o_, block, batch);
    const BatchedMatrix sums{.data = workspace_ + space_.sums,
                             .pitch = op_.head_dim,
                             .batch_step = block.rows * op_.head_dim};
    for (std::size_t i = 0; i < block.keys.size(); ++i) {
      if (block.keys[i].count == 0) continue;
      const std::int64_t column = step.softmax.parts[i].column;
      step.scores.push_back(scores(block, block.keys[i], batch, column));
      step.outputs.push_back(output(block, block.keys[i], batch, column, round ? sums : o));
      step.outputs.back().result = round ? DType::f32 : dtype_;
      if (i > 0) step.outputs.back().c = step.outputs.back().d;
    }
    if (round)
      step.rounding = {view(block, batch, o, dtype_), view(block, batch, sums, DType::f32)};
    return step;
  }

 private:
  /// The block's rows of q or o, one matrix per head.
  [[nodiscard]] BatchedMatrix heads_of(const View& view, const QueryBlock& block,
                                       const HeadBatch& batch) const {
    View row = packed_row_of(view, block.first);
    row.col += batch.q_first * op_.head_dim;
    return {.data = storage_.at(row),
            .pitch = storage_.tensor(view.tensor).cols * block.step,
            .batch_step = std::int64_t{batch.q_step} * op_.head_dim};
  }

  /// The range's rows of k or v, one matrix per head.
  [[nodiscard]] BatchedMatrix keys_of(const View& view, const KeyRange& range,
                                      const HeadBatch& batch) const {
    View first = view;
    first.row += static_cast<std::int32_t>(range.first);
    first.col += batch.kv_first * op_.head_dim;
    return {.data = storage_.at(first),
            .pitch = storage_.tensor(view.tensor).cols * range.step,
            .batch_step = std::int64_t{batch.kv_step} * op_.head_dim};
  }

  [[nodiscard]] BatchedMatrix in_workspace(const QueryBlock& block, std::int64_t offset,
                                           std::int64_t column, DType dtype) const {
    return {.data = workspace_ + offset + column * bytes_of(dtype),
            .pitch = space_.pitch,
            .batch_step = block.rows * space_.pitch};
  }

  [[nodiscard]] Matmul scores(const QueryBlock& block, const KeyRange& range,
                              const HeadBatch& batch, std::int64_t column) const {
    return {.m = block.rows,
            .n = range.count,
            .k = op_.head_dim,
            .batch = batch.heads,
            .a = heads_of(q_, block, batch),
            .b = keys_of(op_.k, range, batch),
            .c = {},
            .d = in_workspace(block, space_.scores, column, DType::f32),
            .transpose_b = true,
            .alpha = 1.0F / std::sqrt(static_cast<float>(op_.head_dim)),
            .factors = dtype_};
  }

  [[nodiscard]] Matmul output(const QueryBlock& block, const KeyRange& range,
                              const HeadBatch& batch, std::int64_t column,
                              const BatchedMatrix& target) const {
    return {.m = block.rows,
            .n = op_.head_dim,
            .k = range.count,
            .batch = batch.heads,
            .a = in_workspace(block, space_.probabilities, column, dtype_),
            .b = keys_of(op_.v, range, batch),
            .c = {},
            .d = target,
            .factors = dtype_};
  }

  [[nodiscard]] SoftmaxRows softmax(const QueryBlock& block, const HeadBatch& batch) const {
    SoftmaxRows rows{
        .scores = reinterpret_cast<const float*>(workspace_ + space_.scores),
        .probabilities = workspace_ + space_.probabilities,
        .pitch = space_.pitch,
        .rows = static_cast<std::int32_t>(block.rows),
        .heads = batch.heads,
        .parts = {},
        .dtype = dtype_,
    };
    std::int64_t column = 0;
    for (std::size_t i = 0; i < block.keys.size(); ++i) {
      const KeyRange& keys = block.keys[i];
      rows.parts[i] = {.column = static_cast<std::int32_t>(column),
                       .count = static_cast<std::int32_t>(keys.count),
                       .begin = static_cast<std::int32_t>(keys.begin),
                       .begin_step = static_cast<std::int32_t>(keys.begin_step),
                       .end = static_cast<std::int32_t>(keys.end),
                       .end_step = static_cast<std::int32_t>(keys.end_step)};
      column += rounded_up(keys.count, kColumns);
    }
    return rows;
  }

  /// Heads as strips.
  [[nodiscard]] DeviceView view(const QueryBlock& block, const HeadBatch& batch,
                                const BatchedMatrix& matrix, DType dtype) const {
    return {.data = matrix.data,
            .pitch = matrix.pitch,
            .strip_step = matrix.batch_step,
            .rows = static_cast<std::int32_t>(block.rows),
            .cols = op_.head_dim,
            .strips = batch.heads,
            .dtype = dtype};
  }

  const Attention& op_;
  View q_;
  View o_;
  const DeviceStorage& storage_;
  std::byte* workspace_;
  DType dtype_;
  Space space_;
};

}  // namespace

std::string unsupported_attention(const Attention& op, const DeviceStorage& storage) {
  if (op.k.strips != 1 || op.v.strips != 1) {
    return fmt::format("k and v of {} and {} strips, not one", op.k.strips, op.v.strips);
  }
  for (const View& view : {op.k, op.v, op.o}) {
    const Tensor& tensor = storage.tensor(view.tensor);
    if (tensor.dtype == dtype_of(op, storage)) continue;
    return fmt::format("q {} and {} {}", name_of(dtype_of(op, storage)), tensor.name,
                       name_of(tensor.dtype));
  }
  const View last = op.q.strip(op.q.strips - 1);
  const std::int32_t end = std::max(op.q.row, last.row) + op.q.rows;
  if (op.mask == Mask::full || end <= op.k.rows) return {};
  return fmt::format("query rows up to {} of a causal sequence of {}", end, op.k.rows);
}

std::int64_t workspace_bytes(const Attention& op, const DeviceStorage& storage) {
  return space_for(op, dtype_of(op, storage)).bytes;
}

std::vector<AttentionStep> attention_steps(const Attention& op, const DeviceStorage& storage,
                                           std::byte* workspace) {
  const StepBuilder builder(op, storage, workspace);
  std::vector<AttentionStep> steps;
  for (const QueryBlock& block : query_blocks(op, rows_per_block(op))) {
    for (const HeadBatch& batch : head_batches(op)) steps.push_back(builder.step(block, batch));
  }
  return steps;
}

}  // namespace commfuse

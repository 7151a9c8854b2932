// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/cuda/attention_blocks.h"
#include "harness/cuda/attention_matrices.h"
#include "harness/cuda/packed_rows.h"

namespace commfuse {
namespace {

constexpr std::int64_t kFloatBytes = 4;

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
  const std::int64_t most_rows = std::min(rows_per_block(op.heads, op.kv_heads), op.q.total_rows());
  const std::int64_t rows = most_rows * head_batches(op.heads, op.kv_heads).front().heads;
  Space space;
  space.pitch = score_row_pitch(op.k.rows, op.mask);
  space.bytes = rows * space.pitch * kFloatBytes;
  if (!is_narrow(dtype)) return space;  // probabilities replace scores, sums are the output
  space.probabilities = space.bytes;
  space.bytes += rows * space.pitch * bytes_of(dtype);
  space.sums = space.bytes;
  if (op.mask == Mask::causal) {
    space.bytes += rounded_up(rows * op.head_dim * kFloatBytes, kMatrixAlignment);
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
        matrices_(storage, op.head_dim),
        workspace_(workspace),
        dtype_(dtype_of(op, storage)),
        space_(space_for(op, dtype_)) {}

  [[nodiscard]] AttentionStep step(const QueryBlock& block, const HeadBatch& batch) const {
    AttentionStep step;
    step.softmax = softmax(block, batch);
    // Narrow sums of two products would be rounded twice.
    const bool round = is_narrow(dtype_) && block.keys[1].count > 0;
    const BatchedMatrix o = matrices_.queries(o_, block, batch);
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
      step.rounding = {matrices_.view(block, batch, o, dtype_),
                       matrices_.view(block, batch, sums, DType::f32)};
    return step;
  }

 private:
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
            .a = matrices_.queries(q_, block, batch),
            .b = matrices_.keys(op_.k, range, batch),
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
            .b = matrices_.keys(op_.v, range, batch),
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
    place_parts(block, rows.parts);
    return rows;
  }

  const Attention& op_;
  View q_;
  View o_;
  HeadMatrices matrices_;
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
  const std::array queries{op.q, op.o};
  for (const QueryBlock& block :
       query_blocks(queries, op.k.rows, op.mask, rows_per_block(op.heads, op.kv_heads))) {
    for (const HeadBatch& batch : head_batches(op.heads, op.kv_heads)) {
      steps.push_back(builder.step(block, batch));
    }
  }
  return steps;
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/attention_matrices.h"

#include "harness/cuda/packed_rows.h"

namespace commfuse {
namespace {

/// Score columns where a range may begin, so that every dtype is aligned.
constexpr std::int64_t kColumns = kMatrixAlignment / 2;

}  // namespace

std::int64_t score_row_pitch(std::int64_t tokens, Mask mask) {
  if (mask == Mask::full) return rounded_up(tokens, kColumns);
  return rounded_up((tokens + 1) / 2, kColumns) + rounded_up(tokens / 2, kColumns);
}

void place_parts(const QueryBlock& block, ScorePart (&parts)[2]) {
  std::int64_t column = 0;
  for (std::size_t i = 0; i < block.keys.size(); ++i) {
    const KeyRange& keys = block.keys[i];
    parts[i] = {.column = static_cast<std::int32_t>(column),
                .count = static_cast<std::int32_t>(keys.count),
                .begin = static_cast<std::int32_t>(keys.begin),
                .begin_step = static_cast<std::int32_t>(keys.begin_step),
                .end = static_cast<std::int32_t>(keys.end),
                .end_step = static_cast<std::int32_t>(keys.end_step)};
    column += rounded_up(keys.count, kColumns);
  }
}

BatchedMatrix HeadMatrices::queries(const View& view, const QueryBlock& block,
                                    const HeadBatch& batch) const {
  View row = packed_row_of(view, block.first);
  row.col += batch.q_first * head_dim_;
  return {.data = storage_.at(row),
          .pitch = storage_.tensor(view.tensor).cols * block.step,
          .batch_step = std::int64_t{batch.q_step} * head_dim_};
}

BatchedMatrix HeadMatrices::keys(const View& view, const KeyRange& range,
                                 const HeadBatch& batch) const {
  View first = view;
  first.row += static_cast<std::int32_t>(range.first);
  first.col += batch.kv_first * head_dim_;
  return {.data = storage_.at(first),
          .pitch = storage_.tensor(view.tensor).cols * range.step,
          .batch_step = std::int64_t{batch.kv_step} * head_dim_};
}

DeviceView HeadMatrices::view(const QueryBlock& block, const HeadBatch& batch,
                              const BatchedMatrix& matrix, DType dtype) const {
  return {.data = matrix.data,
          .pitch = matrix.pitch,
          .strip_step = matrix.batch_step,
          .rows = static_cast<std::int32_t>(block.rows),
          .cols = head_dim_,
          .strips = batch.heads,
          .dtype = dtype};
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/attention_gradient.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/cuda/attention_blocks.h"
#include "harness/cuda/attention_matrices.h"
#include "harness/cuda/packed_rows.h"

namespace commfuse {
namespace {

constexpr std::int64_t kBytesOfFloat = 4;

DType stored_dtype(const View& view, const DeviceStorage& storage) {
  return storage.tensor(view.tensor).dtype;
}

std::int64_t rows_of_block(const AttentionGradient& op) {
  return rows_per_block(op.heads, op.kv_heads) / 2;
}

/// Places of the pieces in the workspace, in bytes from its begin.
struct GradientSpace {
  std::int64_t dk = 0;  // sums, or a row of zeros
  std::int64_t dv = 0;
  std::int64_t zero_bytes = 0;  // of both, from the begin on
  std::int64_t pitch = 0;       // of everything below, elements
  std::int64_t scores = 0;
  std::int64_t score_slopes = 0;  // of the probabilities, fp32
  std::int64_t probabilities = 0;
  std::int64_t slopes = 0;  // of the scores
  std::int64_t dq = 0;      // sums
  std::int64_t bytes = 0;

  GradientSpace(const AttentionGradient& op, const DeviceStorage& storage) {
    dk = take(bytes_for(op.dk, op, storage));
    dv = take(bytes_for(op.dv, op, storage));
    zero_bytes = bytes;
    const DType dtype = stored_dtype(op.q, storage);
    const std::int64_t most_rows = std::min(rows_of_block(op), op.q.total_rows());
    const std::int64_t rows = most_rows * head_batches(op.heads, op.kv_heads).front().heads;
    pitch = score_row_pitch(op.k.rows, op.mask);
    scores = take(rows * pitch * kBytesOfFloat);
    score_slopes = take(rows * pitch * kBytesOfFloat);
    probabilities = scores;  // which they replace, where they are as wide
    slopes = score_slopes;
    if (!is_narrow(dtype)) return;
    probabilities = take(rows * pitch * bytes_of(dtype));
    slopes = take(rows * pitch * bytes_of(dtype));
    dq = bytes;
    if (op.mask == Mask::causal) take(rows * op.head_dim * kBytesOfFloat);
  }

 private:
  std::int64_t take(std::int64_t size) {
    const std::int64_t begin = bytes;
    bytes += rounded_up(size, kMatrixAlignment);
    return begin;
  }
  /// Sums of what is narrow; zeros for what is overwritten.
  static std::int64_t bytes_for(const View& sums, const AttentionGradient& op,
                                const DeviceStorage& storage) {
    if (is_narrow(stored_dtype(sums, storage))) return sums.elements() * kBytesOfFloat;
    return op.adds ? 0 : sums.cols * kBytesOfFloat;
  }
};

/// Builds the steps of one op.
class GradientBuilder {
 public:
  GradientBuilder(const AttentionGradient& op, const DeviceStorage& storage, std::byte* workspace)
      : op_(op),
        q_(joined(op.q)),
        d_o_(joined(op.d_o)),
        dq_(joined(op.dq)),
        storage_(storage),
        matrices_(storage, op.head_dim),
        workspace_(workspace),
        dtype_(stored_dtype(op.q, storage)),
        space_(op, storage) {}

  [[nodiscard]] AttentionGradientPlan plan() const {
    AttentionGradientPlan plan{.zeros = workspace_,
                               .zero_bytes = space_.zero_bytes,
                               .copies = {},
                               .steps = {},
                               .sums = {}};
    add_moves(op_.dk, space_.dk, plan);
    add_moves(op_.dv, space_.dv, plan);
    const std::array queries{op_.q, op_.d_o, op_.dq};
    for (const QueryBlock& block :
         query_blocks(queries, op_.k.rows, op_.mask, rows_of_block(op_))) {
      for (const HeadBatch& batch : head_batches(op_.heads, op_.kv_heads)) {
        plan.steps.push_back(step(block, batch));
      }
    }
    return plan;
  }

 private:
  [[nodiscard]] float scale() const { return 1.0F / std::sqrt(static_cast<float>(op_.head_dim)); }

  /// What has to be done for dk or dv before and after the steps.
  void add_moves(const View& view, std::int64_t offset, AttentionGradientPlan& plan) const {
    const DeviceView target = device_view(view, storage_);
    const bool narrow = is_narrow(target.dtype);
    DeviceView in_workspace = target;
    in_workspace.data = workspace_ + offset;
    in_workspace.pitch = narrow ? view.cols : 0;  // one row of zeros for all
    in_workspace.dtype = DType::f32;
    if (narrow) {
      plan.sums.push_back({target, in_workspace});
    } else if (!op_.adds) {
      plan.copies.push_back({target, in_workspace});
    }
  }

  [[nodiscard]] AttentionGradientStep step(const QueryBlock& block, const HeadBatch& batch) const {
    AttentionGradientStep step;
    step.softmax = softmax(block, batch);
    // Narrow sums of two products would be rounded twice.
    const bool round = is_narrow(dtype_) && block.keys[1].count > 0;
    const BatchedMatrix dq = matrices_.queries(dq_, block, batch);
    const BatchedMatrix sums{.data = workspace_ + space_.dq,
                             .pitch = op_.head_dim,
                             .batch_step = block.rows * op_.head_dim};
    std::vector<Matmul> outputs;
    for (std::size_t i = 0; i < block.keys.size(); ++i) {
      const KeyRange& range = block.keys[i];
      if (range.count == 0) continue;
      const std::int64_t column = step.softmax.softmax.parts[i].column;
      const BatchedMatrix q = matrices_.queries(q_, block, batch);
      const BatchedMatrix d_o = matrices_.queries(d_o_, block, batch);
      step.scores.push_back(
          scores(block, range, batch, q, op_.k, space_.scores + column * kBytesOfFloat));
      step.scores.back().alpha = scale();
      step.scores.push_back(
          scores(block, range, batch, d_o, op_.v, space_.score_slopes + column * kBytesOfFloat));
      const BatchedMatrix probabilities = in_workspace(block, space_.probabilities, column);
      const BatchedMatrix slopes = in_workspace(block, space_.slopes, column);
      add_to_keys(block, range, batch, probabilities, d_o,
                  key_sums(op_.dv, space_.dv, range, batch), step.products);
      add_to_keys(block, range, batch, slopes, q, key_sums(op_.dk, space_.dk, range, batch),
                  step.products);
      outputs.push_back({.m = block.rows,
                         .n = op_.head_dim,
                         .k = range.count,
                         .batch = batch.heads,
                         .a = slopes,
                         .b = matrices_.keys(op_.k, range, batch),
                         .c = outputs.empty() ? BatchedMatrix{} : outputs.back().d,
                         .d = round ? sums : dq,
                         .factors = dtype_,
                         .result = round ? DType::f32 : dtype_});
    }
    step.products.insert(step.products.end(), outputs.begin(), outputs.end());
    if (round) {
      step.rounding = {matrices_.view(block, batch, dq, dtype_),
                       matrices_.view(block, batch, sums, DType::f32)};
    }
    return step;
  }

  /// Factors in the dtype, from a column on.
  [[nodiscard]] BatchedMatrix in_workspace(const QueryBlock& block, std::int64_t offset,
                                           std::int64_t column) const {
    return {.data = workspace_ + offset + column * bytes_of(dtype_),
            .pitch = space_.pitch,
            .batch_step = block.rows * space_.pitch};
  }

  /// queries keys^T, in fp32 at `offset` of the workspace.
  [[nodiscard]] Matmul scores(const QueryBlock& block, const KeyRange& range,
                              const HeadBatch& batch, const BatchedMatrix& queries,
                              const View& keys, std::int64_t offset) const {
    return {.m = block.rows,
            .n = range.count,
            .k = op_.head_dim,
            .batch = batch.heads,
            .a = queries,
            .b = matrices_.keys(keys, range, batch),
            .c = {},
            .d = {.data = workspace_ + offset,
                  .pitch = space_.pitch,
                  .batch_step = block.rows * space_.pitch},
            .transpose_b = true,
            .factors = dtype_};
  }

  /// Where the range's rows of dk or dv are summed.
  [[nodiscard]] BatchedMatrix key_sums(const View& view, std::int64_t offset, const KeyRange& range,
                                       const HeadBatch& batch) const {
    if (!is_narrow(stored_dtype(view, storage_))) return matrices_.keys(view, range, batch);
    const std::int64_t element =
        range.first * view.cols + std::int64_t{batch.kv_first} * op_.head_dim;
    return {.data = workspace_ + offset + element * kBytesOfFloat,
            .pitch = view.cols * range.step,
            .batch_step = std::int64_t{batch.kv_step} * op_.head_dim};
  }

  /// sums += scores^T queries. Heads of one kv head add to the same sums, one after the other.
  void add_to_keys(const QueryBlock& block, const KeyRange& range, const HeadBatch& batch,
                   const BatchedMatrix& scores, const BatchedMatrix& queries,
                   const BatchedMatrix& sums, std::vector<Matmul>& products) const {
    Matmul all{.m = range.count,
               .n = op_.head_dim,
               .k = block.rows,
               .batch = batch.heads,
               .a = scores,
               .b = queries,
               .c = sums,
               .d = sums,
               .transpose_a = true,
               .factors = dtype_};
    if (batch.kv_step != 0) {
      products.push_back(all);
      return;
    }
    all.batch = 1;
    for (std::int32_t head = 0; head < batch.heads; ++head) {
      products.push_back(all);
      all.a.data += all.a.batch_step * bytes_of(dtype_);
      all.b.data += all.b.batch_step * bytes_of(dtype_);
    }
  }

  [[nodiscard]] SoftmaxGradientRows softmax(const QueryBlock& block, const HeadBatch& batch) const {
    SoftmaxGradientRows rows{
        .softmax = {.scores = reinterpret_cast<const float*>(workspace_ + space_.scores),
                    .probabilities = workspace_ + space_.probabilities,
                    .pitch = space_.pitch,
                    .rows = static_cast<std::int32_t>(block.rows),
                    .heads = batch.heads,
                    .parts = {},
                    .dtype = dtype_},
        .slopes = reinterpret_cast<const float*>(workspace_ + space_.score_slopes),
        .results = workspace_ + space_.slopes,
        .scale = scale()};
    place_parts(block, rows.softmax.parts);
    return rows;
  }

  const AttentionGradient& op_;
  View q_;
  View d_o_;
  View dq_;
  const DeviceStorage& storage_;
  HeadMatrices matrices_;
  std::byte* workspace_;
  DType dtype_;
  GradientSpace space_;
};

}  // namespace

std::string unsupported_attention_gradient(const AttentionGradient& op,
                                           const DeviceStorage& storage) {
  const DType dtype = stored_dtype(op.q, storage);
  for (const View& view : {op.k, op.v, op.dk, op.dv}) {
    if (view.strips == 1) continue;
    return fmt::format("gradient of attention with {} strips of {}", view.strips,
                       storage.tensor(view.tensor).name);
  }
  const auto differs = [&](const View& view) {
    const Tensor& tensor = storage.tensor(view.tensor);
    return fmt::format("q {} and {} {}", name_of(dtype), tensor.name, name_of(tensor.dtype));
  };
  for (const View& view : {op.d_o, op.k, op.v, op.dq}) {
    if (stored_dtype(view, storage) != dtype) return differs(view);
  }
  for (const View& view : {op.dk, op.dv}) {
    const DType sums = stored_dtype(view, storage);
    if (sums != dtype && sums != DType::f32) return differs(view);
  }
  const View last = op.q.strip(op.q.strips - 1);
  const std::int32_t end = std::max(op.q.row, last.row) + op.q.rows;
  if (op.mask == Mask::full || end <= op.k.rows) return {};
  return fmt::format("query rows up to {} of a causal sequence of {}", end, op.k.rows);
}

std::int64_t workspace_bytes(const AttentionGradient& op, const DeviceStorage& storage) {
  return GradientSpace(op, storage).bytes;
}

AttentionGradientPlan attention_gradient_plan(const AttentionGradient& op,
                                              const DeviceStorage& storage, std::byte* workspace) {
  return GradientBuilder(op, storage, workspace).plan();
}

}  // namespace commfuse

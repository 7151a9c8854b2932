// SPDX-License-Identifier: Apache-2.0
#include "harness/host/gemm_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "harness/host/blas.h"
#include "harness/host/float_conversion.h"
#include "harness/host/runs.h"

namespace commfuse {
namespace {

/// Rows of D per sgemm where something must be expanded or rounded: enough that BLAS's own packing
/// of B is a few per cent, few enough that workspace stays small beside the tensors.
constexpr std::int64_t kBlockRows = 2048;
constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

struct Extents {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

bool is_narrow(const View& view, const Storage& storage) {
  return is_narrow(storage.tensor(view.tensor).dtype);
}

Extents extents_of(const Gemm& op) {
  return {.m = op.d.total_rows(), .n = op.d.cols, .k = op.transpose_a ? op.a.rows : op.a.cols};
}

std::int64_t block_rows(const Gemm& op, const Storage& storage) {
  const bool direct = !is_narrow(op.a, storage) && !is_narrow(op.d, storage) &&
                      (!op.c || !is_narrow(*op.c, storage));
  return direct ? kUnlimited : kBlockRows;
}

/// Strips that touch are one rectangle.
View joined(const View& view) {
  if (view.strips == 1 || view.row_step != view.rows || view.col_step != 0) return view;
  View rectangle = view;
  rectangle.rows *= view.strips;
  rectangle.strips = 1;
  return rectangle;
}

/// How many rows of the packed form follow `packed_row` within its strip.
std::int64_t rows_left(const View& view, std::int64_t packed_row) {
  return view.rows - packed_row % view.rows;
}

/// Rows of D that one sgemm may cover from `row` on: a constant distance apart in D, A and C.
std::int64_t segment_rows(const Gemm& op, std::int64_t row) {
  const std::int64_t in_a = op.transpose_a ? op.a.cols - row % op.a.cols : rows_left(op.a, row);
  std::int64_t rows = std::min(rows_left(op.d, row), in_a);
  if (op.c) rows = std::min(rows, rows_left(*op.c, row));
  return rows;
}

/// First element of op(A)'s row `row`.
std::int64_t a_offset(const Gemm& op, const Tensor& a, std::int64_t row) {
  if (!op.transpose_a) return packed_row_offset(op.a, a, row);
  const std::int64_t strip = row / op.a.cols;
  return packed_row_offset(op.a, a, strip * op.a.rows) + row % op.a.cols;
}

/// A rectangle of storage as fp32: where it lies, or expanded into `space` (packed).
Matrix expanded(const Storage& storage, TensorId id, std::int64_t offset, std::int64_t rows,
                std::int64_t cols, float* space) {
  const DType dtype = storage.tensor(id).dtype;
  const std::int64_t pitch = storage.tensor(id).cols;
  const std::byte* first = storage.data(id) + offset * bytes_of(dtype);
  if (!is_narrow(dtype)) return {.data = reinterpret_cast<const float*>(first), .ld = pitch};
  for (std::int64_t row = 0; row < rows; ++row) {
    load_floats(dtype, first + row * pitch * bytes_of(dtype), space + row * cols, cols);
  }
  return {.data = space, .ld = cols};
}

/// Where sgemm accumulates: D itself, or workspace that is rounded into D afterwards.
struct Accumulator {
  float* data = nullptr;
  std::int64_t ld = 0;
};

void load_c(const Storage& storage, const View& c, std::int64_t row, const Extents& block,
            const Accumulator& to) {
  const Tensor& tensor = storage.tensor(c.tensor);
  const std::int64_t offset = packed_row_offset(c, tensor, row);
  for (std::int64_t i = 0; i < block.m; ++i) {
    const std::int64_t from = offset + i * tensor.cols;
    float* target = to.data + i * to.ld;
    const std::byte* source = storage.data(c.tensor) + from * bytes_of(tensor.dtype);
    if (source == reinterpret_cast<const std::byte*>(target)) return;  // C is D
    load_floats(tensor.dtype, source, target, block.n);
  }
}

void run_block(const Gemm& op, const Storage& storage, const Matrix& b, std::int64_t row,
               const Extents& block, float* workspace) {
  const Tensor& d = storage.tensor(op.d.tensor);
  std::byte* const target =
      storage.data(op.d.tensor) + packed_row_offset(op.d, d, row) * bytes_of(d.dtype);
  Accumulator sum{.data = reinterpret_cast<float*>(target), .ld = d.cols};
  if (is_narrow(d.dtype)) {
    sum = {.data = workspace, .ld = block.n};
    workspace += block.m * block.n;
  }
  const std::int64_t a_at = a_offset(op, storage.tensor(op.a.tensor), row);
  Matrix a = op.transpose_a ? expanded(storage, op.a.tensor, a_at, block.k, block.m, workspace)
                            : expanded(storage, op.a.tensor, a_at, block.m, block.k, workspace);
  a.transposed = op.transpose_a;
  if (op.c) load_c(storage, *op.c, row, block, sum);
  sgemm(block.m, block.n, block.k, 1.0F, a, b, op.c ? 1.0F : 0.0F, sum.data, sum.ld);
  if (!is_narrow(d.dtype)) return;
  for (std::int64_t i = 0; i < block.m; ++i) {
    store_floats(d.dtype, sum.data + i * sum.ld, target + i * d.cols * bytes_of(d.dtype), block.n);
  }
}

}  // namespace

void check_shapes(const Gemm& op, const Storage& storage) {
  if (!misfit(op).empty()) {
    throw std::invalid_argument(fmt::format(
        "cannot multiply {} = {}{} {}{}{}{}", describe(op.d, storage.tensor(op.d.tensor)),
        describe(op.a, storage.tensor(op.a.tensor)), op.transpose_a ? "^T" : "",
        describe(op.b, storage.tensor(op.b.tensor)), op.transpose_b ? "^T" : "", op.c ? " + " : "",
        op.c ? describe(*op.c, storage.tensor(op.c->tensor)) : ""));
  }
}

std::int64_t workspace_floats(const Gemm& op, const Storage& storage, bool expanded_b) {
  if (op.b.strips > 1) return workspace_floats(strip_of(op, 0), storage, expanded_b);
  const auto [m, n, k] = extents_of(op);
  const std::int64_t rows = std::min(m, block_rows(op, storage));
  std::int64_t floats = 0;
  if (is_narrow(op.b, storage) && !expanded_b) floats += n * k;
  if (is_narrow(op.a, storage)) floats += rows * k;
  if (is_narrow(op.d, storage)) floats += rows * n;
  return floats;
}

void run(const Gemm& op, const Storage& storage, const float* expanded_b, float* workspace) {
  if (op.b.strips > 1) {
    for (std::int32_t s = 0; s < op.b.strips; ++s) {
      run(strip_of(op, s), storage, expanded_b, workspace);
    }
    return;
  }
  const auto [m, n, k] = extents_of(op);
  const Tensor& b_tensor = storage.tensor(op.b.tensor);
  const std::int64_t b_offset = packed_row_offset(op.b, b_tensor, 0);
  Matrix b;
  if (expanded_b != nullptr) {
    b = {.data = expanded_b + b_offset, .ld = b_tensor.cols};
  } else {
    b = expanded(storage, op.b.tensor, b_offset, op.b.rows, op.b.cols, workspace);
    if (is_narrow(b_tensor.dtype)) workspace += n * k;
  }
  b.transposed = op.transpose_b;

  Gemm segments = op;
  segments.d = joined(op.d);
  if (!op.transpose_a) segments.a = joined(op.a);
  if (op.c) segments.c = joined(*op.c);
  const std::int64_t limit = block_rows(op, storage);
  for (std::int64_t row = 0; row < m;) {
    const std::int64_t rows = std::min(segment_rows(segments, row), limit);
    run_block(segments, storage, b, row, {.m = rows, .n = n, .k = k}, workspace);
    row += rows;
  }
}

}  // namespace commfuse

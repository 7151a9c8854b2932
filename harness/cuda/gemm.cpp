// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/gemm.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/cuda/packed_rows.h"

namespace commfuse {
namespace {

DType dtype_of(const View& view, const DeviceStorage& storage) {
  return storage.tensor(view.tensor).dtype;
}

/// A row of op(A): of its columns where A is transposed.
View operand_row(const Gemm& op, std::int64_t row) {
  if (!op.transpose_a) return packed_row_of(op.a, row);
  View column = op.a.strip(static_cast<std::int32_t>(row / op.a.cols));
  column.col += static_cast<std::int32_t>(row % op.a.cols);
  return column;
}

/// Rows of D from `row` on that are a constant distance apart in D, A and C.
std::int64_t unbroken_rows(const Gemm& op, std::int64_t row) {
  const std::int64_t in_a = op.transpose_a ? op.a.cols - row % op.a.cols : rows_left(op.a, row);
  const std::int64_t rows = std::min(rows_left(op.d, row), in_a);
  return op.c ? std::min(rows, rows_left(*op.c, row)) : rows;
}

BatchedMatrix matrix_at(const View& view, const DeviceStorage& storage) {
  return {.data = storage.at(view), .pitch = storage.tensor(view.tensor).cols};
}

Matmul stretch(const Gemm& op, const DeviceStorage& storage, std::int64_t row, std::int64_t rows) {
  Matmul matmul{.m = rows,
                .n = op.d.cols,
                .k = op.transpose_a ? op.a.rows : op.a.cols,
                .a = matrix_at(operand_row(op, row), storage),
                .b = matrix_at(op.b, storage),
                .c = {},
                .d = matrix_at(packed_row_of(op.d, row), storage),
                .transpose_a = op.transpose_a,
                .transpose_b = op.transpose_b,
                .factors = dtype_of(op.a, storage),
                .result = dtype_of(op.d, storage)};
  if (op.c) matmul.c = matrix_at(packed_row_of(*op.c, row), storage);
  return matmul;
}

/// Distance of two matrices in elements, 0 where there are none.
std::int64_t distance(const BatchedMatrix& from, const BatchedMatrix& to, DType dtype) {
  return from.data == nullptr ? 0 : (to.data - from.data) / bytes_of(dtype);
}

struct Steps {
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t c = 0;
  std::int64_t d = 0;
  friend bool operator==(const Steps&, const Steps&) = default;
};
Steps steps(const Matmul& from, const Matmul& to) {
  return {.a = distance(from.a, to.a, from.factors),
          .b = distance(from.b, to.b, from.factors),
          .c = distance(from.c, to.c, from.result),
          .d = distance(from.d, to.d, from.result)};
}

bool is_batch(const std::vector<Matmul>& all) {
  if (all.size() < 2) return false;
  const Steps first = steps(all[0], all[1]);
  // Batches that run backwards are nothing that cuBLASLt promises.
  if (first.a < 0 || first.b < 0 || first.c < 0 || first.d <= 0) return false;
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i].m != all[0].m || steps(all[i - 1], all[i]) != first) return false;
  }
  return true;
}

/// One strip of B.
void add_stretches(const Gemm& op, const DeviceStorage& storage, std::vector<Matmul>& to) {
  Gemm merged = op;
  merged.d = joined(op.d);
  if (!op.transpose_a) merged.a = joined(op.a);
  if (op.c) merged.c = joined(*op.c);
  for (std::int64_t row = 0; row < op.d.total_rows(); row += to.back().m) {
    to.push_back(stretch(merged, storage, row, unbroken_rows(merged, row)));
  }
}

}  // namespace

std::string unsupported_dtypes(const Gemm& op, const DeviceStorage& storage) {
  const DType a = dtype_of(op.a, storage);
  const DType b = dtype_of(op.b, storage);
  const DType d = dtype_of(op.d, storage);
  if (a != b) return fmt::format("a {} and b {}", name_of(a), name_of(b));
  if (d != a && is_narrow(d)) return fmt::format("a {} and d {}", name_of(a), name_of(d));
  if (!op.c || dtype_of(*op.c, storage) == d) return {};
  return fmt::format("c {} and d {}", name_of(dtype_of(*op.c, storage)), name_of(d));
}

std::vector<Matmul> matmuls_of(const Gemm& op, const DeviceStorage& storage) {
  if (op.d.elements() == 0) return {};
  std::vector<Matmul> matmuls;
  if (op.b.strips == 1) {
    add_stretches(op, storage, matmuls);
  } else {
    for (std::int32_t s = 0; s < op.b.strips; ++s) add_stretches(strip_of(op, s), storage, matmuls);
  }
  if (!is_batch(matmuls)) return matmuls;
  Matmul batch = matmuls[0];
  const Steps step = steps(matmuls[0], matmuls[1]);
  batch.batch = static_cast<std::int64_t>(matmuls.size());
  batch.a.batch_step = step.a;
  batch.b.batch_step = step.b;
  batch.c.batch_step = step.c;
  batch.d.batch_step = step.d;
  return {batch};
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/cublaslt_problem.h"

#include <array>
#include <utility>

namespace commfuse::fake {
namespace {

bool is_transposed(std::int32_t operation) { return operation == CUBLAS_OP_T; }

bool is_real_operation(std::int32_t operation) {
  return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T;
}

/// Elements that lie together, and how many such lines there are.
std::pair<std::uint64_t, std::uint64_t> lines(const LayoutValue& layout) {
  if (layout.order == CUBLASLT_ORDER_ROW) return {layout.cols, layout.rows};
  return {layout.rows, layout.cols};
}

bool is_layout(const LayoutValue& layout) {
  const auto [length, count] = lines(layout);
  return layout.rows > 0 && layout.cols > 0 && layout.batch_count > 0 && layout.batch_stride >= 0 &&
         layout.ld > 0 && std::cmp_greater_equal(layout.ld, length) &&
         (layout.order == CUBLASLT_ORDER_COL || layout.order == CUBLASLT_ORDER_ROW);
}

/// Matrices that are written must not share elements: they lie behind each other, or side by side
/// within the leading dimension, as heads do.
bool batches_are_apart(const LayoutValue& layout) {
  if (layout.batch_count == 1) return true;
  const auto [length, count] = lines(layout);
  const auto ld = static_cast<std::uint64_t>(layout.ld);
  const auto stride = static_cast<std::uint64_t>(layout.batch_stride);
  const std::uint64_t others = static_cast<std::uint64_t>(layout.batch_count) - 1;
  const bool behind = stride >= (count - 1) * ld + length;
  return behind || (stride >= length && others * stride + length <= ld);
}

/// Rows and columns of what takes part in the product.
std::pair<std::uint64_t, std::uint64_t> shape(const LayoutValue& layout, bool transposed) {
  if (transposed) return {layout.cols, layout.rows};
  return {layout.rows, layout.cols};
}

cublasStatus_t check_shapes(MatmulProblem& problem) {
  const auto [m, k] = shape(problem.a, is_transposed(problem.operation.trans_a));
  const auto [k_of_b, n] = shape(problem.b, is_transposed(problem.operation.trans_b));
  const auto fits = [&, m = m, n = n](const LayoutValue& result) {
    return result.rows == m && result.cols == n;
  };
  problem.m = m;
  problem.n = n;
  problem.k = k;
  problem.batch = problem.d.batch_count;
  const bool batches = problem.a.batch_count == problem.batch &&
                       problem.b.batch_count == problem.batch &&
                       problem.c.batch_count == problem.batch && batches_are_apart(problem.d);
  if (k != k_of_b || !fits(problem.c) || !fits(problem.d) || !batches) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

/// Which types go together, as the library's table for real numbers says.
bool types_are_supported(const MatmulProblem& problem) {
  const std::int32_t input = problem.a.type;
  const std::int32_t output = problem.d.type;
  if (problem.b.type != input || problem.c.type != output) return false;
  if (problem.operation.scale_type != CUDA_R_32F) return false;
  switch (problem.operation.compute_type) {
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
      return format_of(input) && (output == input || output == CUDA_R_32F);
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return input == CUDA_R_32F && output == CUDA_R_32F;
    default:
      return false;
  }
}

}  // namespace

std::optional<NumberFormat> format_of(std::int32_t cuda_type) {
  switch (cuda_type) {
    case CUDA_R_32F:
      return NumberFormat::f32;
    case CUDA_R_16BF:
      return NumberFormat::bf16;
    case CUDA_R_16F:
      return NumberFormat::f16;
    default:
      return std::nullopt;
  }
}

std::uint64_t MatmulProblem::identity() const {
  const std::array<std::uint64_t, 10> parts{
      m,
      n,
      k,
      static_cast<std::uint64_t>(batch),
      static_cast<std::uint64_t>(a.type),
      static_cast<std::uint64_t>(d.type),
      static_cast<std::uint64_t>(operation.compute_type),
      static_cast<std::uint64_t>(operation.trans_a),
      static_cast<std::uint64_t>(operation.trans_b),
      static_cast<std::uint64_t>(a.order + 8 * b.order + 64 * d.order)};
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a over words
  for (const std::uint64_t part : parts) hash = (hash ^ part) * 1099511628211U;
  return hash;
}

cublasStatus_t read_problem(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                            cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                            cublasLtMatrixLayout_t d, MatmulProblem& problem) {
  const auto matmul = get<MatmulValue>(operation);
  if (!matmul) return CUBLAS_STATUS_INVALID_VALUE;
  problem.operation = *matmul;
  const std::array<std::pair<cublasLtMatrixLayout_t, LayoutValue*>, 4> layouts{
      {{a, &problem.a}, {b, &problem.b}, {c, &problem.c}, {d, &problem.d}}};
  for (const auto& [descriptor, layout] : layouts) {
    const auto value = get<LayoutValue>(descriptor);
    if (!value || !is_layout(*value)) return CUBLAS_STATUS_INVALID_VALUE;
    *layout = *value;
  }
  if (!is_real_operation(matmul->trans_a) || !is_real_operation(matmul->trans_b) ||
      matmul->sm_count_target < 0) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!types_are_supported(problem) || matmul->pointer_mode != CUBLASLT_POINTER_MODE_HOST ||
      matmul->epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return check_shapes(problem);
}

std::size_t element_index(const LayoutValue& layout, std::int32_t batch, std::uint64_t row,
                          std::uint64_t col) {
  const auto ld = static_cast<std::uint64_t>(layout.ld);
  const std::uint64_t first =
      static_cast<std::uint64_t>(batch) * static_cast<std::uint64_t>(layout.batch_stride);
  return first + (layout.order == CUBLASLT_ORDER_ROW ? row * ld + col : row + col * ld);
}

Range extent_of(const LayoutValue& layout, const void* data) {
  const std::size_t last =
      element_index(layout, layout.batch_count - 1, layout.rows - 1, layout.cols - 1);
  return {data, (last + 1) * bytes_of(format_of(layout.type).value_or(NumberFormat::f32))};
}

std::vector<Range> ranges_of(const LayoutValue& layout, const void* data) {
  const auto [length, count] = lines(layout);
  const std::size_t element = bytes_of(format_of(layout.type).value_or(NumberFormat::f32));
  const bool dense = std::cmp_equal(layout.ld, length);
  std::vector<Range> ranges;
  for (std::int32_t batch = 0; batch < layout.batch_count; ++batch) {
    const auto* matrix =
        static_cast<const std::byte*>(data) + element_index(layout, batch, 0, 0) * element;
    for (std::uint64_t line = 0; line < (dense ? 1 : count); ++line) {
      const std::size_t offset = line * static_cast<std::uint64_t>(layout.ld) * element;
      ranges.push_back({matrix + offset, (dense ? length * count : length) * element});
    }
  }
  return ranges;
}

}  // namespace commfuse::fake

// SPDX-License-Identifier: Apache-2.0
// A matrix multiplication as the descriptors of cuBLASLt say it, once they are found to agree.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/fakecuda/cublaslt_values.h"
#include "tests/fakecuda/number_format.h"
#include "tests/fakecuda/simulated_memory.h"

namespace commfuse::fake {

/// D[m,n] = alpha op(A)[m,k] op(B)[k,n] + beta C[m,n], `batch` times.
struct MatmulProblem {
  MatmulValue operation;
  LayoutValue a, b, c, d;
  std::uint64_t m = 0;
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  std::int32_t batch = 1;

  /// Equal for problems with equal types, shapes and transpositions.
  [[nodiscard]] std::uint64_t identity() const;
};

/// The problem, or CUBLAS_STATUS_INVALID_VALUE for descriptors that contradict each other and
/// CUBLAS_STATUS_NOT_SUPPORTED for types and options that the library lacks (or the fake).
cublasStatus_t read_problem(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                            cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                            cublasLtMatrixLayout_t d, MatmulProblem& problem);

/// Nothing for a type that the fake does not compute.
[[nodiscard]] std::optional<NumberFormat> format_of(std::int32_t cuda_type);

/// Which element of its buffer an element of a matrix is.
[[nodiscard]] std::size_t element_index(const LayoutValue& layout, std::int32_t batch,
                                        std::uint64_t row, std::uint64_t col);
/// The bytes of a matrix that starts at `data`, without the gaps between its columns (or rows).
[[nodiscard]] std::vector<Range> ranges_of(const LayoutValue& layout, const void* data);
/// From its first byte to its last.
[[nodiscard]] Range extent_of(const LayoutValue& layout, const void* data);

}  // namespace commfuse::fake

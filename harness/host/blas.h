// SPDX-License-Identifier: Apache-2.0
// The one place that calls OpenBLAS.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace commfuse {

/// Makes OpenBLAS compute on the calling thread alone, whatever its environment variables say.
/// Throws std::runtime_error unless it is the pthread variant: the serial one returns wrong
/// products when several threads call it, and the OpenMP one has a thread count per caller. Call
/// before the first gemm; any thread, any number of times.
void use_blas_single_threaded();

/// Version, build options and the kernels chosen for this CPU: "OpenBLAS 0.3.21 ... SkylakeX".
std::string describe_blas();

/// Kernels of OpenBLAS that suit this CPU better than those it chose, "" where none do. A release
/// older than the CPU falls back to SSE3 kernels, at a fifth of the speed of the right ones; the
/// name returned here mends that, as OPENBLAS_CORETYPE in the environment of a new process.
std::string_view better_blas_kernels();
/// The same for a given choice on a CPU with these instruction sets.
std::string_view better_blas_kernels(std::string_view chosen, bool avx2, bool avx512);

/// A row-major matrix: `ld` elements from row to row.
struct Matrix {
  const float* data = nullptr;
  std::int64_t ld = 0;
  bool transposed = false;
};

/// C[m, n] = alpha op(A) op(B) + beta C, row major. With beta 0, C is not read (it may hold NaN).
/// Throws std::length_error for sizes beyond what this OpenBLAS counts with (32 bits as a rule).
void sgemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const Matrix& a,
           const Matrix& b, float beta, float* c, std::int64_t ldc);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/host/blas.h"

#include <cblas.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <stdexcept>

namespace commfuse {
namespace {

constexpr int kPthreads = 1;  // what openblas_get_parallel() calls the pthread variant

void set_one_thread() {
  if (const int parallel = openblas_get_parallel(); parallel != kPthreads) {
    throw std::runtime_error(
        fmt::format("needs the pthread variant of OpenBLAS (libopenblas0-pthread), got the {} one",
                    parallel == 0 ? "serial" : "OpenMP"));
  }
  openblas_set_num_threads(1);
  if (const int threads = openblas_get_num_threads(); threads != 1) {
    throw std::runtime_error(
        fmt::format("OpenBLAS runs {} threads and cannot be set to one", threads));
  }
}

}  // namespace

void use_blas_single_threaded() {
  static std::once_flag once;  // setting the count while another thread multiplies is a race
  std::call_once(once, set_one_thread);
}

std::string describe_blas() {
  // Once, since the library writes this text anew in one place for all threads.
  static const std::string text =
      fmt::format("{} {}", openblas_get_config(), openblas_get_corename());
  return text;
}

std::string_view better_blas_kernels() {
#ifdef __x86_64__
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  const bool avx512 =
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
      __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512cd") != 0;
  return better_blas_kernels(openblas_get_corename(), avx2, avx512);
#else
  return "";
#endif
}

std::string_view better_blas_kernels(std::string_view chosen, bool avx2, bool avx512) {
  // Everything of x86-64 in OpenBLAS that uses AVX2 or better.
  constexpr std::array<std::string_view, 6> kModern{"Haswell",  "Zen",        "Excavator",
                                                    "SkylakeX", "Cooperlake", "Sapphirerapids"};
  if (!avx2 || std::find(kModern.begin(), kModern.end(), chosen) != kModern.end()) return "";
  return avx512 ? "SkylakeX" : "Haswell";
}

void sgemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const Matrix& a,
           const Matrix& b, float beta, float* c, std::int64_t ldc) {
  if (const std::int64_t largest = std::max({m, n, k, a.ld, b.ld, ldc});
      largest > std::numeric_limits<blasint>::max()) {
    throw std::length_error(fmt::format("OpenBLAS counts up to {}, a gemm of {} x {} x {} needs {}",
                                        std::numeric_limits<blasint>::max(), m, n, k, largest));
  }
  cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
              b.transposed ? CblasTrans : CblasNoTrans, static_cast<blasint>(m),
              static_cast<blasint>(n), static_cast<blasint>(k), alpha, a.data,
              static_cast<blasint>(a.ld), b.data, static_cast<blasint>(b.ld), beta, c,
              static_cast<blasint>(ldc));
}

}  // namespace commfuse

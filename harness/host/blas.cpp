// SPDX-License-Identifier: Apache-2.0
#include "harness/host/blas.h"

#include <cblas.h>
#include <fmt/format.h>

#include <algorithm>
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
  return fmt::format("{} {}", openblas_get_config(), openblas_get_corename());
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

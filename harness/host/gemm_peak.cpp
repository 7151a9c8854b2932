// SPDX-License-Identifier: Apache-2.0
#include <time.h>

#include <algorithm>
#include <vector>

#include "harness/host/blas.h"
#include "harness/host/kernels.h"

namespace commfuse {
namespace {

/// Time this thread has computed, without the time that others had its core.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

double measure_gemm_peak() {
  constexpr std::int64_t kSize = 1024;
  constexpr double kFlops = 2.0 * kSize * kSize * kSize;
  constexpr double kBudgetSeconds = 0.3;
  constexpr int kLeastRuns = 3;  // the first one touches BLAS's buffers
  use_blas_single_threaded();
  const std::vector<float> a(kSize * kSize, 0.5F);
  const std::vector<float> b(kSize * kSize, 0.25F);
  std::vector<float> c(kSize * kSize);
  double best = 0;
  double spent = 0;
  for (int run = 0; run < kLeastRuns || spent < kBudgetSeconds; ++run) {
    const double begin = thread_seconds();
    sgemm(kSize, kSize, kSize, 1.0F, {.data = a.data(), .ld = kSize},
          {.data = b.data(), .ld = kSize, .transposed = true}, 0.0F, c.data(), kSize);
    const double seconds = thread_seconds() - begin;
    best = std::max(best, kFlops / seconds);
    spent += seconds;
  }
  return best;
}

}  // namespace commfuse

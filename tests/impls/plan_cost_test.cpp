// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <time.h>

#include <string>

#include "impls/verify.h"
#include "tests/impls/small_workloads.h"

namespace commfuse {
namespace {

/// CPU time of this thread: other processes do not count.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// What a plan of a large machine costs before anything runs.
TEST(PlanCost, Of64RanksIsBuiltAndVerifiedInTime) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
  constexpr double kLimit = 10;
#else
  constexpr double kLimit = 0.2;
#endif
  const Workload workload = small_workload("tpsp/gemm_rs", 64, 2);
  const Implementation made = make_implementation("commfuse:order=ring:m=2", workload);
  const double begin = cpu_seconds();
  const std::vector<Plan> plans = build_plans(made, workload);
  const double built = cpu_seconds();
  verify(plans, workload);
  const double verified = cpu_seconds();
  RecordProperty("build_ms", std::to_string(1e3 * (built - begin)));
  RecordProperty("verify_ms", std::to_string(1e3 * (verified - built)));
  EXPECT_EQ(plans.front().ops.size(), 64U * 2 + 63U * 2);
  EXPECT_LT(verified - begin, kLimit) << "built in " << built - begin << " s";
}

/// Constant time per op: four times the ops, far less than sixteen times the time.
TEST(PlanCost, GrowsWithTheOps) {
  const auto seconds = [](std::int32_t ranks) {
    const Workload workload = small_workload("tpsp/mlp", ranks, 4);
    const Implementation made = make_implementation("commfuse:order=direct:m=4", workload);
    const double begin = cpu_seconds();
    for (int i = 0; i < 4; ++i) build_plan(made, workload, 0);
    return cpu_seconds() - begin;
  };
  seconds(64);
  EXPECT_LT(seconds(1024), 8 * seconds(256));
}

}  // namespace
}  // namespace commfuse

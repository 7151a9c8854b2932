// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <time.h>

#include <array>

#include "impls/transform.h"
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

class EveryPlan : public testing::TestWithParam<std::int32_t> {};

TEST_P(EveryPlan, Verifies) {
  const std::int32_t ranks = GetParam();
  for (const WorkloadEntry& entry : workloads()) {
    const Workload workload = small_workload(entry.name, ranks, 8);
    for (const std::string_view spec : every_implementation()) {
      const Implementation made = make_implementation(spec, workload);
      if (!unsupported(made, workload).empty()) continue;
      SCOPED_TRACE(testing::Message() << made.name << ", " << entry.name);
      const std::vector<Plan> plans = build_plans(made, workload);
      std::vector<PlanFacts> facts;
      ASSERT_NO_THROW(facts = verify(plans, workload));
      for (const PlanFacts& fact : facts) EXPECT_EQ(fact.bytes_sent, fact.minimum_bytes);
      if (ranks == 1) {
        EXPECT_TRUE(plans.front().messages.empty());
      }
    }
  }
}

TEST_P(EveryPlan, VerifiesWithoutCommunication) {
  const std::int32_t ranks = GetParam();
  for (const WorkloadEntry& entry : workloads()) {
    const Workload workload = small_workload(entry.name, ranks, 8);
    for (const std::string_view spec : every_implementation()) {
      const Implementation made = make_implementation(spec, workload);
      if (!unsupported(made, workload).empty()) continue;
      std::vector<Plan> quiet;
      for (const Plan& plan : build_plans(made, workload)) {
        quiet.push_back(without_communication(plan));
      }
      EXPECT_NO_THROW(verify(quiet, workload)) << made.name << ", " << entry.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, EveryPlan, testing::Values(1, 2, 3, 4, 5, 7, 8),
                         testing::PrintToStringParamName());

TEST(EveryPlan, OfCausalAttentionKeepsZigzagPairsTogether) {
  Shape shape;
  shape.hidden = 8;
  shape.heads = shape.kv_heads = 4;
  shape.head_dim = 4;
  shape.causal = true;
  shape.tokens = 32;
  const Workload workload = find_workloads("tpsp/attention").front()->build(shape, 4);
  EXPECT_EQ(unsupported(make_implementation("commfuse:m=4", workload), workload), "");
  EXPECT_NO_THROW(verify(plans_of("commfuse:m=4", workload), workload));
  EXPECT_EQ(unsupported(make_implementation("commfuse:m=8", workload), workload),
            "needs rows per rank divisible by unit x m (2 x 8), got 8");
}

/// What a plan of a large machine costs before anything runs.
TEST(EveryPlan, Of64RanksIsBuiltAndVerifiedInTime) {
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
TEST(EveryPlan, GrowsWithItsOps) {
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

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "impls/transform.h"
#include "impls/verify.h"
#include "tests/impls/small_workloads.h"

namespace commfuse {
namespace {

/// "sliced:n=2:axis=features on tpsp/qkv": what no number of rows makes possible.
std::set<std::string> known_holes() {
  std::set<std::string> holes;
  for (const std::string_view spec : {"sliced:n=2:axis=features", "sliced:n=4:axis=features"}) {
    for (const std::string_view workload : {"tpsp/ag_gemm",
                                            "tpsp/ag_gemm:backward",
                                            "tpsp/gemm_rs:backward",
                                            "tpsp/mlp:backward",
                                            "tpsp/qkv",
                                            "tpsp/qkv:backward",
                                            "tpsp/attention:backward",
                                            "tpsp/layer",
                                            "tpsp/layer:backward",
                                            "dp/zero3",
                                            "dp/zero3:backward",
                                            "dp/zero1",
                                            "dp/ddp",
                                            "ulysses/qkv",
                                            "ulysses/qkv:backward",
                                            "ulysses/attention",
                                            "ulysses/attention:backward",
                                            "ulysses/block",
                                            "ulysses/block:backward",
                                            "ulysses/layer",
                                            "ulysses/layer:backward"}) {
      holes.insert(fmt::format("{} on {}", spec, workload));
    }
  }
  return holes;
}

class EveryPlan : public testing::TestWithParam<std::int32_t> {};

TEST_P(EveryPlan, Verifies) {
  const std::int32_t ranks = GetParam();
  std::set<std::string> holes;
  for (const WorkloadEntry& entry : workloads()) {
    const Workload workload = small_workload(selector_of(entry), ranks, 8);
    for (const std::string_view spec : every_implementation()) {
      const Implementation made = make_implementation(spec, workload);
      if (!unsupported(made, workload).empty()) {
        holes.insert(fmt::format("{} on {}", spec, selector_of(entry)));
        continue;
      }
      SCOPED_TRACE(testing::Message() << made.name << ", " << entry.name);
      const std::vector<Plan> plans = build_plans(made, workload);
      std::vector<PlanFacts> facts;
      ASSERT_NO_THROW(facts = verify(plans, workload));
      EXPECT_NO_THROW(verify(plans, workload, MessageCompletion::joint));
      for (const PlanFacts& fact : facts) EXPECT_EQ(fact.bytes_sent, fact.minimum_bytes);
      if (ranks == 1) {
        EXPECT_TRUE(plans.front().messages.empty());
      }
    }
  }
  EXPECT_EQ(holes, known_holes());
}

TEST_P(EveryPlan, VerifiesWithoutCommunication) {
  const std::int32_t ranks = GetParam();
  for (const WorkloadEntry& entry : workloads()) {
    const Workload workload = small_workload(selector_of(entry), ranks, 8);
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

}  // namespace
}  // namespace commfuse

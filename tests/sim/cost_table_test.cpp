// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/cost_table.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "suite/error.h"
#include "tests/impls/small_workloads.h"

namespace commfuse {
namespace {

const std::vector<Tensor> kTensors{{"narrow", 4096, 4096, DType::bf16},
                                   {"wide", 4096, 4096, DType::f32}};

View block(std::int32_t rows, std::int32_t cols, TensorId tensor = 0, std::int32_t row = 0) {
  return {.tensor = tensor, .row = row, .rows = rows, .cols = cols};
}

Gemm small_gemm() {
  Gemm gemm;
  gemm.d = block(64, 32);
  gemm.a = block(64, 16);
  gemm.b = block(32, 16);
  return gemm;
}

OpKey gemm_key(std::int64_t m, std::int64_t n = 32, std::int64_t k = 16) {
  return {"gemm", "bf16 NT", {m, n, k}};
}

std::string described(const Compute& op) { return describe(key_of(op, kTensors)); }

TEST(OpKey, SaysWhatDecidesTheCostOfAGemm) {
  Gemm gemm = small_gemm();
  EXPECT_EQ(described(gemm), "gemm 64x32x16 bf16 NT");
  gemm.c = gemm.d;
  EXPECT_EQ(described(gemm), "gemm 64x32x16 bf16 NT + D");
  gemm.c = block(64, 32, 0, 1000);
  EXPECT_EQ(described(gemm), "gemm 64x32x16 bf16 NT + C");
  gemm.c.reset();
  gemm.transpose_a = true;
  gemm.a = block(16, 64);
  gemm.transpose_b = false;
  gemm.b = block(16, 32);
  EXPECT_EQ(described(gemm), "gemm 64x32x16 bf16 TN");
  gemm.d.tensor = 1;
  EXPECT_EQ(described(gemm), "gemm 64x32x16 fp32 <- bf16 bf16 TN");
}

TEST(OpKey, StripsOfAGemmLieOverMOrN) {
  Gemm over_m = small_gemm();
  over_m.d = {.rows = 32, .cols = 32, .strips = 2, .row_step = 100};
  over_m.a = {.rows = 32, .cols = 16, .strips = 2, .row_step = 100};
  EXPECT_EQ(described(over_m), "gemm 64x32x16 bf16 strips 2 <- 2 1 NT");
  Gemm over_n = small_gemm();
  over_n.d = {.rows = 64, .cols = 16, .strips = 2, .col_step = 100};
  over_n.b = {.rows = 16, .cols = 16, .strips = 2, .row_step = 100};
  EXPECT_EQ(described(over_n), "gemm 64x32x16 bf16 strips 2 <- 1 2 NT");
}

TEST(OpKey, WhereAnOpLiesDoesNotMatter) {
  Gemm moved = small_gemm();
  moved.a.row += 128;
  moved.d.col += 64;
  EXPECT_EQ(key_of(moved, kTensors), key_of(small_gemm(), kTensors));
}

TEST(OpKey, OfOtherOps) {
  const View all = block(64, 32);
  const View wide = block(64, 32, 1);
  EXPECT_EQ(described(Elementwise{all, block(64, 64), Activation::swiglu}),
            "activation 64x32 bf16 swiglu");
  EXPECT_EQ(described(Copy{all, wide}), "copy 64x32 bf16 <- fp32");
  EXPECT_EQ(described(Residual{all, all, all}), "residual 64x32 bf16");
  EXPECT_EQ(described(GammaGradient{block(1, 32), all, all, true}),
            "gamma_gradient 64x32 bf16 adds");
  EXPECT_EQ(described(Accumulate{all, all, {.rows = 64, .cols = 32, .strips = 3, .row_step = 64}}),
            "accumulate 64x32x3 bf16");
  EXPECT_EQ(described(Adam{wide, wide, wide, wide, wide, wide, wide, all}),
            "adam 64x32 fp32 fp32 fp32 bf16 <- fp32 fp32 fp32 fp32 copy");
  Attention attention{all, all, block(128, 16), block(128, 16), 4, 2, 8, Mask::causal};
  EXPECT_EQ(described(attention), "attention 64x128x4 bf16 kv_heads=2 head=8 causal");
}

void expect_sizes(const Compute& op, const OpKey& key) {
  const auto names = size_names(key.kind);
  ASSERT_FALSE(names.empty()) << key.kind;
  for (std::size_t i = 0; i < names.size(); ++i) EXPECT_GT(key.sizes[i], 0) << describe(key);
  if (key.kind == "gemm") {
    EXPECT_EQ(flops(op), 2 * key.sizes[0] * key.sizes[1] * key.sizes[2]) << describe(key);
  }
}

TEST(OpKey, EveryOpOfEveryPlanHasSizes) {
  std::set<std::string> kinds;
  for (const WorkloadEntry& entry : workloads()) {
    const Workload workload = small_workload(selector_of(entry), 2, 8);
    for (const std::string_view spec : every_implementation()) {
      const Implementation made = make_implementation(spec, workload);
      if (!unsupported(made, workload).empty()) continue;
      const Plan plan = build_plan(made, workload, 1);
      for (const Op& op : plan.ops) {
        const auto compute = compute_of(op);
        if (!compute) continue;
        const OpKey key = key_of(*compute, plan.tensors);
        expect_sizes(*compute, key);
        kinds.insert(key.kind);
      }
    }
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Compute>);
}

TEST(CostTable, GivesWhatWasMeasured) {
  const CostTable table("costs.json", {{gemm_key(64), {1234.5}}});
  EXPECT_EQ(table.time(small_gemm(), kTensors), 1'234'500);
  EXPECT_EQ(table.find_ns(gemm_key(64)), 1234.5);
}

TEST(CostTable, InterpolatesBetweenTheNearestInOneSize) {
  const CostTable table("costs.json", {{gemm_key(16), {100}},
                                       {gemm_key(32), {300}},
                                       {gemm_key(64), {400}},
                                       {gemm_key(128), {1000}}});
  EXPECT_EQ(table.find_ns(gemm_key(24)), 200);
  EXPECT_EQ(table.find_ns(gemm_key(40)), 325);
  EXPECT_EQ(table.find_ns(gemm_key(96)), 700);
}

TEST(CostTable, RefusesWhatLiesBeyond) {
  const CostTable table("costs.json", {{gemm_key(16), {100}},
                                       {gemm_key(64), {400}},
                                       {gemm_key(64, 64), {900}},
                                       {{"gemm", "bf16 NT + D", {24, 32, 16}}, {1}}});
  EXPECT_FALSE(table.find_ns(gemm_key(8)));
  EXPECT_FALSE(table.find_ns(gemm_key(65)));
  EXPECT_FALSE(table.find_ns(gemm_key(32, 48))) << "it differs in two sizes";
  EXPECT_FALSE(table.find_ns({"gemm", "fp32 NT", {32, 32, 16}}));
  EXPECT_FALSE(table.find_ns({"gemm", "bf16 NT + C", {32, 32, 16}}));
  EXPECT_TRUE(table.find_ns(gemm_key(32))) << "entries of another form do not count";
}

TEST(CostTable, AmongSizesTheNearestEntriesByRatioDecide) {
  OpCosts costs{{gemm_key(8), {0}},
                {gemm_key(128), {1200}},
                {gemm_key(32, 16), {10}},
                {gemm_key(32, 48), {30}}};
  EXPECT_EQ(CostTable("costs.json", costs).find_ns(gemm_key(32)), 20);
  costs.erase(gemm_key(32, 16));
  EXPECT_EQ(CostTable("costs.json", costs).find_ns(gemm_key(32)), 240);
  // Equal ratios: the first size.
  const OpCosts equal{{gemm_key(16), {100}},
                      {gemm_key(64), {400}},
                      {gemm_key(32, 16), {1}},
                      {gemm_key(32, 64), {2}}};
  EXPECT_EQ(CostTable("costs.json", equal).find_ns(gemm_key(32)), 200);
}

TEST(CostTable, AnUnknownOpIsNamed) {
  const CostTable table("costs.json", {});
  try {
    (void)table.time(small_gemm(), kTensors);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "costs.json has no time of gemm 64x32x16 bf16 NT");
  }
}

TEST(CostTable, ListsAllThatPlansLackAtOnce) {
  const std::vector<Plan> plans = plans_of("plain", small_workload("tpsp/mlp", 2, 8));
  OpCosts costs;
  std::set<std::string> all;
  for (const Op& op : plans[0].ops) {
    const auto compute = compute_of(op);
    if (!compute) continue;
    const OpKey key = key_of(*compute, plans[0].tensors);
    all.insert(describe(key));
    if (key.kind != "gemm") costs[key] = {1};
  }
  const CostTable table("costs.json", costs);
  OpCoverage coverage;
  for (const Plan& plan : plans) table.cover(plan, coverage);
  EXPECT_EQ(coverage.asked, all);
  EXPECT_EQ(coverage.unknown.size(), all.size() - costs.size());
  const std::string refusal = table.refusal(coverage);
  EXPECT_TRUE(refusal.starts_with("costs.json lacks ")) << refusal;
  for (const std::string& op : coverage.unknown) EXPECT_NE(refusal.find(op), std::string::npos);
  EXPECT_EQ(table.refusal({}), "");
}

TEST(CostTable, ARefusalListsTenOps) {
  OpCoverage coverage;
  for (int i = 0; i < 13; ++i) {
    coverage.unknown.push_back("op" + std::to_string(i));
    coverage.asked.insert(coverage.unknown.back());
  }
  EXPECT_EQ(CostTable("c", {}).refusal(coverage),
            "c lacks 13 of 13 ops: op0; op1; op2; op3; op4; op5; op6; op7; op8; op9; and 3 more");
}

TEST(CostTable, KnowsTheBestGemmRate) {
  const CostTable table("costs.json", {{gemm_key(64), {64 * 32 * 16}},
                                       {gemm_key(128), {64 * 32 * 16}},
                                       {{"copy", "bf16", {64, 32, 0}}, {0.001}}});
  EXPECT_DOUBLE_EQ(table.best_gemm_flops_per_second(), 4e9);
  EXPECT_EQ(CostTable("costs.json", {}).best_gemm_flops_per_second(), 0);
}

}  // namespace
}  // namespace commfuse

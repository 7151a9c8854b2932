// SPDX-License-Identifier: Apache-2.0
// --replay on the CUDA backend: ranks run their ops in turn and move data as ever, on the fakes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "harness/sim/replay_executor.h"
#include "tests/conformance/executor_cases.h"
#include "tests/fakecuda/backend_run.h"

namespace commfuse::fake {
namespace {

using ReplayCase = std::tuple<std::int32_t, Setting, Issue>;

class CudaReplay : public testing::TestWithParam<ReplayCase> {};

TEST_P(CudaReplay, EqualsTheOracleWithoutRaces) {
  const auto& [ranks, setting, issue] = GetParam();
  for (const char* name : {"gemm_rs_even", "ag_gemm_odd"}) {
    const BackendRun run{setting, ranks, 3, issue};
    const ShapeCase& shape = *std::ranges::find(shape_cases(), name, &ShapeCase::name);
    std::string mismatch;
    int compared = 0;
    const Verdict verdict = run_backend(run, [&](World& world) {
      const std::string own = run_all_implementations(
          world, shape, DType::bf16,
          [&](World& group, const Workload& workload) {
            auto executor =
                std::make_unique<ReplayExecutor>(group, group, make_executor(run, group, workload),
                                                 OpTiming::in_turn, Protocol::put);
            executor->set_link({1e9, 1e-6});
            return executor;
          },
          {Stamped::all, Iterations::one_by_one}, compared);
      if (mismatch.empty()) mismatch = own;  // host threads run one at a time
    });
    ASSERT_TRUE(verdict.ok()) << name << ": " << verdict.message;
    EXPECT_EQ(mismatch, "") << name;
    EXPECT_GE(compared, 15 * ranks) << name;
  }
}

std::string name_of_replay(const testing::TestParamInfo<ReplayCase>& info) {
  return fmt::format("{}_on_{}_by_{}", name_of(std::get<1>(info.param)), std::get<0>(info.param),
                     std::get<2>(info.param) == Issue::graph ? "graphs" : "calls");
}

INSTANTIATE_TEST_SUITE_P(Ranks, CudaReplay,
                         testing::Combine(testing::Values(2, 3),
                                          testing::Values(Setting::nccl, Setting::ce_ipc,
                                                          Setting::ce_one_card),
                                          testing::Values(Issue::calls, Issue::graph)),
                         name_of_replay);

}  // namespace
}  // namespace commfuse::fake

// SPDX-License-Identifier: Apache-2.0
// --cache rotate on the CUDA backend: executors that share a transport take turns, on the fakes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <tuple>

#include "harness/cuda/ce_streams.h"
#include "harness/rotating_executor.h"
#include "tests/conformance/executor_cases.h"
#include "tests/fakecuda/backend_run.h"

namespace commfuse::fake {
namespace {

const ShapeCase& shape_named(std::string_view name) {
  return *std::ranges::find(shape_cases(), name, &ShapeCase::name);
}

using RotateCase = std::tuple<std::int32_t, Setting, Issue>;

class CudaRotation : public testing::TestWithParam<RotateCase> {};

TEST_P(CudaRotation, EqualsTheOracleWithoutRaces) {
  const auto& [ranks, setting, issue] = GetParam();
  for (const char* shape : {"gemm_rs_even", "ag_gemm_odd"}) {
    const BackendRun run{setting, ranks, 3, issue};
    std::string mismatch;
    int compared = 0;
    const Verdict verdict = run_backend(run, [&](World& world) {
      const std::string own = run_all_implementations(
          world, shape_named(shape), DType::bf16,
          [&](World& group, const Workload& workload) {
            return std::make_unique<RotatingExecutor>(make_executors(run, group, workload, 2));
          },
          {Stamped::compute_lane, Iterations::one_by_one}, compared);
      if (mismatch.empty()) mismatch = own;  // host threads run one at a time
    });
    ASSERT_TRUE(verdict.ok()) << shape << ": " << verdict.message;
    EXPECT_EQ(mismatch, "") << shape;
    EXPECT_GE(compared, 15 * ranks) << shape;
  }
}

std::string name_of_case(const testing::TestParamInfo<RotateCase>& info) {
  return fmt::format("{}_on_{}_by_{}", name_of(std::get<1>(info.param)), std::get<0>(info.param),
                     std::get<2>(info.param) == Issue::graph ? "graphs" : "calls");
}

INSTANTIATE_TEST_SUITE_P(Ranks, CudaRotation,
                         testing::Combine(testing::Values(2, 3),
                                          testing::Values(Setting::nccl, Setting::ce_ipc,
                                                          Setting::ce_one_card),
                                          testing::Values(Issue::calls, Issue::graph)),
                         name_of_case);

TEST(CeStreams, EverySetNeedsItsOwn) {
  EXPECT_EQ(streams_of_rank(Sharing::rank, 2), 4);
  EXPECT_EQ(streams_of_rank(Sharing::rank, 2, 3), 8);
  Device device;
  device.ranks_here = 2;
  device.connections = 16;
  EXPECT_EQ(finest_sharing(device, 2, 2), Sharing::destination);  // 2 x 8
  EXPECT_EQ(finest_sharing(device, 2, 3), Sharing::rank);         // 2 x 8
  EXPECT_THROW(finest_sharing(device, 2, 4), Unsupported);        // 2 x 10
}

}  // namespace
}  // namespace commfuse::fake

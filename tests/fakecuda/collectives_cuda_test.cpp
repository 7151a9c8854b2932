// SPDX-License-Identifier: Apache-2.0
// Each kind of collective through the CUDA backend, on the fakes of its libraries, in plans by
// hand: what is moved and added, without a race, a deadlock or a read of what nobody wrote.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "tests/conformance/collective_cases.h"
#include "tests/fakecuda/backend_run.h"

namespace commfuse::fake {
namespace {

using testing::HasSubstr;

/// Runs what gives the first mismatch of a rank; there must be none, and no finding of the machine.
void expect_right(const BackendRun& run,
                  const std::function<std::string(World&, const MakeExecutor&)>& body) {
  std::string mismatch;  // host threads run one at a time
  const Verdict verdict = run_backend(run, [&](World& world) {
    const std::string own = body(world, [&](World& group, const Workload& workload) {
      return make_executor(run, group, workload);
    });
    if (mismatch.empty()) mismatch = own;
  });
  EXPECT_TRUE(verdict.ok()) << "seed " << run.seed << ": " << verdict.message;
  EXPECT_EQ(mismatch, "") << "seed " << run.seed;
}

/// The ways in which NCCL has a collective; one anywhere else.
std::vector<CollectiveVia> ways_of(CollectiveKind kind, Setting setting) {
  if (setting != Setting::nccl) return {CollectiveVia::standard};
  switch (kind) {
    case CollectiveKind::all_gather:
      return {kCollectiveVia.begin(), kCollectiveVia.end()};
    case CollectiveKind::all_to_all:
      return {CollectiveVia::standard, CollectiveVia::registered, CollectiveVia::copy_engine};
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_reduce:
      break;
  }
  return {CollectiveVia::standard, CollectiveVia::registered, CollectiveVia::symmetric};
}

using CollectiveRunCase = std::tuple<Setting, std::int32_t, Issue>;

class CudaCollectives : public testing::TestWithParam<CollectiveRunCase> {
 protected:
  static constexpr std::uint64_t kRuns = 4;
  static BackendRun run_of(std::uint64_t seed) {
    const auto& [setting, ranks, issue] = GetParam();
    return {setting, ranks, seed, issue};
  }
};

TEST_P(CudaCollectives, MoveAndAddWhatTheyMust) {
  for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
    const BackendRun run = run_of(seed);
    const Iterations iterations =
        run.issue == Issue::graph ? Iterations::one_by_one : Iterations::back_to_back;
    for (const CollectiveKind kind : kCollectiveKinds) {
      for (const CollectiveVia via : ways_of(kind, run.setting)) {
        const DType dtype = seed % 2 == 0 ? DType::bf16 : DType::f32;
        const Lane lane = seed < 2 ? Lane::scatter : Lane::compute;
        expect_right(run, [&](World& world, const MakeExecutor& make) {
          return run_collective(world, {kind, dtype, lane, via}, make, iterations);
        });
      }
    }
  }
}

TEST_P(CudaCollectives, AddWhatRanksCannotShareEqually) {
  const BackendRun run = run_of(2);
  const Iterations iterations =
      run.issue == Issue::graph ? Iterations::one_by_one : Iterations::back_to_back;
  for (const std::int32_t rows : {1, 2}) {  // fewer elements than 8 ranks, and more
    const CollectiveCase uneven{
        .kind = CollectiveKind::all_reduce, .dtype = DType::bf16, .rows = rows};
    expect_right(run, [&](World& world, const MakeExecutor& make) {
      return run_collective(world, uneven, make, iterations);
    });
  }
}

TEST_P(CudaCollectives, LeaveTheSameBitsOnEveryRank) {
  const BackendRun run = run_of(1);
  for (const DType dtype : kDTypes) {
    expect_right(run, [&](World& world, const MakeExecutor& make) {
      return run_inexact_all_reduce(world, dtype, make);
    });
  }
}

std::string name_of_case(const testing::TestParamInfo<CollectiveRunCase>& info) {
  const auto& [setting, ranks, issue] = info.param;
  return fmt::format("{}_on_{}{}", name_of(setting), ranks,
                     issue == Issue::graph ? "_replayed" : "");
}

INSTANTIATE_TEST_SUITE_P(
    Called, CudaCollectives,
    testing::Combine(testing::Values(Setting::nccl, Setting::ce_ipc, Setting::ce_one_card),
                     testing::Values(1, 2, 3, 4, 8), testing::Values(Issue::calls)),
    name_of_case);
INSTANTIATE_TEST_SUITE_P(Replayed, CudaCollectives,
                         testing::Combine(testing::Values(Setting::nccl, Setting::ce_ipc,
                                                          Setting::ce_one_card),
                                          testing::Values(2, 3, 4), testing::Values(Issue::graph)),
                         name_of_case);

/// Why a plan with such a collective is not prepared; every rank says the same.
std::string refusal_of(const BackendRun& run, CollectiveKind kind, CollectiveVia via) {
  std::vector<std::string> refusals;
  const Verdict verdict = run_backend(run, [&](World& world) {
    try {
      run_collective(world, {kind, DType::f32, Lane::scatter, via},
                     [&](World& group, const Workload& workload) {
                       return make_executor(run, group, workload);
                     });
      refusals.emplace_back();
    } catch (const Unsupported& error) {
      refusals.emplace_back(error.what());
    }
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
  EXPECT_THAT(refusals, testing::Each(refusals.front()));
  return refusals.front();
}

TEST(CudaCollectiveRefusals, SayWhatNcclHasNot) {
  const BackendRun run{Setting::nccl, 3, 1};
  EXPECT_THAT(refusal_of(run, CollectiveKind::all_reduce, CollectiveVia::copy_engine),
              HasSubstr("copy engines add nothing, so NCCL has no all-reduce by them"));
  EXPECT_THAT(refusal_of(run, CollectiveKind::reduce_scatter, CollectiveVia::copy_engine),
              HasSubstr("so NCCL has no reduce-scatter by them"));
  EXPECT_THAT(refusal_of(run, CollectiveKind::all_to_all, CollectiveVia::symmetric),
              HasSubstr("collective=symmetric: NCCL has no kernel for an all-to-all of windows"));
}

}  // namespace
}  // namespace commfuse::fake

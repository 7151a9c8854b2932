// SPDX-License-Identifier: Apache-2.0
// Every workload under every implementation through the CUDA backend, on the fakes of its
// libraries: against the oracle, and without a race, a deadlock or a read of what nobody wrote.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <tuple>

#include "tests/conformance/executor_cases.h"
#include "tests/fakecuda/backend_run.h"
#include "tests/fakecuda/seeds.h"

namespace commfuse::fake {
namespace {

using BackendCase = std::tuple<ShapeCase, std::int32_t, Setting>;

class CudaBackendConformance : public testing::TestWithParam<BackendCase> {};

TEST_P(CudaBackendConformance, EqualsTheOracleWithoutRaces) {
  const auto& [shape, ranks, setting] = GetParam();
  for (std::uint64_t seed = 0; seed < conformance_seeds(); ++seed) {
    const BackendRun run{setting, ranks, seed};
    // Of few seeds, too, every dtype meets a third of the cases.
    const std::uint64_t turn =
        seed + static_cast<std::uint64_t>(ranks) + static_cast<std::uint64_t>(setting);
    const DType dtype = kDTypes[turn % kDTypes.size()];
    int compared = 0;
    std::string mismatch;  // host threads run one at a time
    const Verdict verdict = run_backend(run, [&, &shape = shape](World& world) {
      const std::string own = run_all_implementations(
          world, shape, dtype,
          [&](World& group, const Workload& workload) {
            return make_executor(run, group, workload);
          },
          {Stamped::compute_lane, Iterations::back_to_back}, compared);
      if (mismatch.empty()) mismatch = own;
    });
    ASSERT_TRUE(verdict.ok()) << "seed " << seed << ": " << verdict.message;
    ASSERT_EQ(mismatch, "") << "seed " << seed;
    EXPECT_GE(compared, 10 * ranks);
  }
}

std::string name_of_case(const testing::TestParamInfo<BackendCase>& info) {
  return fmt::format("{}_{}_on_{}", name_of(std::get<2>(info.param)), std::get<0>(info.param).name,
                     std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CudaBackendConformance,
    testing::Combine(testing::ValuesIn(shape_cases().begin(), shape_cases().end()),
                     testing::Values(2, 3, 4, 8),
                     testing::Values(Setting::nccl, Setting::ce_ipc, Setting::ce_one_card)),
    name_of_case);

}  // namespace
}  // namespace commfuse::fake

// SPDX-License-Identifier: Apache-2.0
// Every workload under every implementation through the CUDA backend, on the fakes of its
// libraries: against the oracle, and without a race, a deadlock or a read of what nobody wrote.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <tuple>
#include <vector>

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

/// Up to 4 ranks everything with everything. 8 take several times as long as all others together:
/// there the shapes take the settings in turn.
std::vector<BackendCase> backend_cases() {
  constexpr std::array kSettings{Setting::nccl, Setting::ce_ipc, Setting::ce_one_card};
  std::vector<BackendCase> cases;
  std::size_t turn = 0;
  for (const ShapeCase& shape : shape_cases()) {
    for (const std::int32_t ranks : {2, 3, 4}) {
      for (const Setting setting : kSettings) cases.emplace_back(shape, ranks, setting);
    }
    cases.emplace_back(shape, 8, kSettings[turn++ % kSettings.size()]);
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaBackendConformance, testing::ValuesIn(backend_cases()),
                         name_of_case);

}  // namespace
}  // namespace commfuse::fake

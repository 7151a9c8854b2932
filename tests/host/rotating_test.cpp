// SPDX-License-Identifier: Apache-2.0
// Executors of the host that take turns: every schedule, with other inputs in each of three
// iterations, compared with the oracle.
#include <gtest/gtest.h>

#include <atomic>
#include <tuple>

#include "harness/host/host_executor.h"
#include "harness/host/paced_transport.h"
#include "harness/rotating_executor.h"
#include "harness/world/thread_world.h"
#include "tests/conformance/executor_cases.h"

namespace commfuse {
namespace {

using RotatingCase = std::tuple<std::int32_t, std::int32_t>;  // ranks, sets

class RotatingImplementations : public testing::TestWithParam<RotatingCase> {};

TEST_P(RotatingImplementations, EqualTheOracle) {
  const auto& [ranks, sets] = GetParam();
  for (const ShapeCase& shape : shape_cases()) {
    std::atomic<int> total{0};
    run_thread_ranks(ranks, [&, sets = sets](World& world) {
      int compared = 0;
      const auto make = [&](World& group, const Workload& workload) {
        std::vector<std::unique_ptr<Executor>> all;
        for (std::int32_t i = 0; i < sets; ++i) {
          all.push_back(std::make_unique<HostExecutor>(group, workload.tensors, workload.weights,
                                                       std::make_unique<PacedTransport>(group)));
        }
        return std::make_unique<RotatingExecutor>(std::move(all));
      };
      EXPECT_EQ(run_all_implementations(world, shape, DType::f32, make,
                                        {Stamped::all, Iterations::one_by_one}, compared),
                "");
      total += compared;
    });
    EXPECT_GE(total, 15 * ranks) << shape.name;
  }
}

INSTANTIATE_TEST_SUITE_P(RanksAndSets, RotatingImplementations,
                         testing::Combine(testing::Values(1, 2, 3), testing::Values(2, 3)));

}  // namespace
}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// Replays on the host: every schedule, with other inputs in each of three iterations, compared with
// the oracle, on more ranks than there may be cores.
#include <gtest/gtest.h>

#include <atomic>

#include "harness/host/host_executor.h"
#include "harness/host/paced_transport.h"
#include "harness/sim/replay_executor.h"
#include "harness/world/thread_world.h"
#include "tests/conformance/executor_cases.h"

namespace commfuse {
namespace {

class ReplayedImplementations : public testing::TestWithParam<std::int32_t> {};

TEST_P(ReplayedImplementations, EqualTheOracle) {
  const std::int32_t ranks = GetParam();
  for (const ShapeCase& shape : shape_cases()) {
    std::atomic<int> total{0};
    run_thread_ranks(ranks, [&](World& world) {
      int compared = 0;
      const auto make = [&](World& group, const Workload& workload) {
        auto executor = std::make_unique<ReplayExecutor>(
            group, group,
            std::make_unique<HostExecutor>(group, workload.tensors, workload.weights,
                                           std::make_unique<PacedTransport>(group)),
            ranks == 3 ? OpTiming::in_turn : OpTiming::together, Protocol::put);
        executor->set_link({1e9, 1e-6});
        return executor;
      };
      EXPECT_EQ(run_all_implementations(world, shape, DType::f32, make,
                                        {Stamped::all, Iterations::one_by_one}, compared),
                "");
      total += compared;
    });
    EXPECT_GE(total, 15 * ranks) << shape.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, ReplayedImplementations, testing::Values(1, 3, 5));

}  // namespace
}  // namespace commfuse

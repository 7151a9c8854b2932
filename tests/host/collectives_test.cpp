// SPDX-License-Identifier: Apache-2.0
// Each kind of collective over the paced wire, in plans by hand.
#include <gtest/gtest.h>

#include <tuple>

#include "harness/host/host_executor.h"
#include "harness/host/paced_transport.h"
#include "harness/world/thread_world.h"
#include "tests/conformance/collective_cases.h"

namespace commfuse {
namespace {

class PacedCollectives : public testing::TestWithParam<std::tuple<std::int32_t, DType>> {
 protected:
  static std::unique_ptr<Executor> make(World& group, const Workload& workload) {
    auto executor = std::make_unique<HostExecutor>(group, workload.tensors, workload.weights,
                                                   std::make_unique<PacedTransport>(group));
    executor->set_link({.bytes_per_second = 20e6, .latency_seconds = 30e-6});
    return executor;
  }
};

TEST_P(PacedCollectives, MoveAndAddWhatTheyMust) {
  const auto& [ranks, dtype] = GetParam();
  run_thread_ranks(ranks, [dtype = dtype](World& world) {
    for (const CollectiveKind kind : kCollectiveKinds) {
      for (const Lane lane : {Lane::compute, Lane::gather, Lane::scatter}) {
        EXPECT_EQ(run_collective(world, {kind, dtype, lane}, make), "");
      }
    }
    for (const std::int32_t rows : {1, 2}) {  // blocks of two sizes, and empty ones
      const CollectiveCase uneven{.kind = CollectiveKind::all_reduce, .dtype = dtype, .rows = rows};
      EXPECT_EQ(run_collective(world, uneven, make), "");
    }
  });
}

TEST_P(PacedCollectives, LeaveTheSameBitsOnEveryRank) {
  const auto& [ranks, dtype] = GetParam();
  run_thread_ranks(ranks, [dtype = dtype](World& world) {
    EXPECT_EQ(run_inexact_all_reduce(world, dtype, make), "");
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, PacedCollectives,
                         testing::Combine(testing::Values(1, 2, 3, 4, 6),
                                          testing::ValuesIn(kDTypes)));

}  // namespace
}  // namespace commfuse

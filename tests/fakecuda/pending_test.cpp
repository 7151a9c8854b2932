// SPDX-License-Identifier: Apache-2.0
// What a channel says of an iteration that hangs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "harness/cuda/counter_report.h"
#include "harness/cuda/rank_storage.h"
#include "harness/cuda/slab.h"
#include "impls/implementation.h"
#include "tests/conformance/collective_cases.h"
#include "tests/conformance/executor_cases.h"
#include "tests/fakecuda/backend_run.h"

namespace commfuse::fake {
namespace {

using testing::HasSubstr;
using testing::Not;

/// What rank 0's channel has pending of an epoch of which nothing has been enqueued; `make_plan`
/// makes the plan of a rank.
template <class MakePlan>
std::string pending_of(const BackendRun& run, const Workload& workload, MakePlan make_plan,
                       Epoch epoch) {
  std::string text;
  const Verdict verdict = run_backend(run, [&](World& world) {
    const CudaPlan plan(make_plan(world.rank()));
    const auto transport = make_transport(run, world, device_of(run, world));
    PeerMemory memory;
    PeerMemory scratch;
    memory.allocate(world, SlabLayout(workload.tensors).bytes, transport->reach());
    scratch.allocate(world, scratch_bytes(plan.program.plan()), transport->reach());
    const auto storages = storages_of_ranks(plan.program.plan(), memory, scratch);
    const auto channel = transport->open(plan, storages, run.issue);
    if (world.rank() == 0) text = channel->pending(epoch);
    world.barrier();
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
  return text;
}

std::string pending_of(const BackendRun& run, const char* implementation, Epoch epoch) {
  const Workload workload = workload_of(shape_cases().front(), run.ranks, DType::f32);
  return pending_of(
      run, workload,
      [&](std::int32_t rank) {
        return build_plan(make_implementation(implementation, workload), workload, rank);
      },
      epoch);
}

std::string pending_of(const BackendRun& run, CollectiveKind kind, Epoch epoch) {
  const CollectiveCase what{.kind = kind};
  const Workload workload = workload_of(what, run.ranks);
  return pending_of(
      run, workload, [&](std::int32_t rank) { return plan_of(what, workload, rank); }, epoch);
}

TEST(Pending, CopyEnginesNameEveryCounterThatIsBehind) {
  const BackendRun run{.setting = Setting::ce_ipc, .ranks = 3};
  const std::string text = pending_of(run, "commfuse:order=direct", 1);
  for (const char* line : {": credit of rank 1 for ", ": block from rank 2 into "}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, HasSubstr("]: 1 wanted, 0 there\n"));
  EXPECT_EQ(pending_of(run, "commfuse:order=direct", 0), "  no counter: everything has come\n");
}

TEST(Pending, CopyEnginesNameTheCountersOfCollectives) {
  const std::string text = pending_of({.setting = Setting::ce_one_card, .ranks = 2}, "plain", 1);
  EXPECT_THAT(text, HasSubstr(": credit of rank 1: 1 wanted, 0 there\n"));
  EXPECT_THAT(text, HasSubstr(": block from rank 1: 1 wanted, 0 there\n"));
}

TEST(Pending, CopyEnginesNameTheSumsOfAnAllReduce) {
  const BackendRun run{.setting = Setting::ce_ipc, .ranks = 3};
  const std::string text = pending_of(run, CollectiveKind::all_reduce, 1);
  for (const std::int32_t rank : {1, 2}) {
    for (const char* counter : {"credit of", "block from", "sum from"}) {
      EXPECT_THAT(text,
                  HasSubstr(fmt::format("op 1: {} rank {}: 1 wanted, 0 there\n", counter, rank)));
    }
  }
  EXPECT_THAT(pending_of(run, CollectiveKind::all_to_all, 1), Not(HasSubstr("sum from")));
}

TEST(Pending, OfNcclNothingIsPendingThatWasNotEnqueued) {
  EXPECT_EQ(pending_of({.setting = Setting::nccl, .ranks = 2}, "commfuse", 1),
            "  nothing of its communication lanes\n");
}

TEST(Pending, ValuesAreComparedAsTheProtocolDoes) {
  const CounterOps operations({}, false);
  const CounterProtocol epochs(operations, Issue::calls);
  EXPECT_TRUE(epochs.reached(7, 7));
  EXPECT_FALSE(epochs.reached(6, 7));
  EXPECT_TRUE(epochs.reached(2, 0xffffffff));  // it has wrapped around
  const CounterProtocol constants(operations, Issue::graph);
  EXPECT_TRUE(constants.reached(1, 7));
  EXPECT_FALSE(constants.reached(0, 7));
}

TEST(Pending, OfManyCountersTheFirstAreNamedAndTheRestCounted) {
  const CounterOps operations({}, false);
  std::vector<std::byte> counters(30 * kCounterBytes);
  std::vector<AwaitedCounter> awaited;
  for (std::size_t i = 0; i < 30; ++i) {
    const std::uint32_t value = i == 3 ? 9 : 8;
    std::memcpy(counters.data() + i * kCounterBytes, &value, sizeof value);
    awaited.push_back({i * kCounterBytes, fmt::format("counter {}", i)});
  }
  const std::string text = behind(counters, awaited, {operations, Issue::calls}, 9);
  EXPECT_THAT(text, HasSubstr("  counter 2: 9 wanted, 8 there\n  counter 4: 9 wanted"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 25);
  EXPECT_THAT(text, HasSubstr("\n  and 5 more\n"));
}

}  // namespace
}  // namespace commfuse::fake

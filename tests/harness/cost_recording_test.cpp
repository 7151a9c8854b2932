// SPDX-License-Identifier: Apache-2.0
#include "harness/cost_recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "harness/plan_spans.h"
#include "harness/world/thread_world.h"
#include "suite/error.h"
#include "tests/impls/small_workloads.h"

namespace commfuse {
namespace {

using ::testing::HasSubstr;

const nlohmann::ordered_json kMachine{{"host", "node1"}, {"cpu", "fast"}};
constexpr const char* kClock = "device time";

class CostRecordings : public testing::Test {
 protected:
  CostRecordings() { std::filesystem::create_directory(folder_); }
  ~CostRecordings() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path() const { return folder_ / "costs.json"; }

  template <class Action>
  static std::string refused(const Action& action) {
    try {
      action();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("recording." + std::to_string(getpid()));
};

Plan small_plan(std::int32_t rank) {
  return plans_of("compute_only", small_workload("tpsp/mlp", 2, 8))
      .at(static_cast<std::size_t>(rank));
}

/// Every op of a plan takes so long.
std::vector<OpTime> equal_times(const Plan& plan, std::int64_t ns) {
  std::vector<OpTime> times;
  for (OpId op = 0; op < plan.ops.size(); ++op) times.push_back({op, ns});
  return times;
}

TEST(CostOf, IsTheMedianAndTheSpreadAroundIt) {
  EXPECT_EQ(cost_of({7}), (OpCost{7, 1, 0}));
  EXPECT_EQ(cost_of({30, 10, 20, 40, 50}), (OpCost{30, 5, 20.0 / 30}));
  EXPECT_EQ(cost_of({0, 0}), (OpCost{0, 2, 0}));
}

TEST(OpTimes, AreByCpuTimeWhereItIsKnownAndNotOfMessages) {
  Timeline timeline;
  timeline.spans.push_back({.begin_ns = 100, .end_ns = 400, .cpu_ns = 200, .op = 1});
  timeline.spans.push_back({.begin_ns = 400, .end_ns = 410, .op = 2});
  timeline.spans.push_back({.begin_ns = 0, .end_ns = 90, .op = 3, .kind = SpanKind::transfer});
  timeline.spans.push_back({.begin_ns = 0, .end_ns = 90, .op = 4, .kind = SpanKind::collective});
  std::vector<OpTime> times;
  append_op_times(timeline, times);
  ASSERT_EQ(times.size(), 3U);
  EXPECT_EQ(times[0].op, 1U);
  EXPECT_EQ(times[0].ns, 200);
  EXPECT_EQ(times[1].op, 2U);
  EXPECT_EQ(times[1].ns, 10);
  EXPECT_EQ(times[2].op, 4U);
  EXPECT_EQ(times[2].ns, 90);
}

TEST_F(CostRecordings, HoldTheOpsOfAllRanks) {
  run_thread_ranks(2, [&](World& world) {
    CostRecording recording(path(), false);
    if (world.rank() == 0) recording.open();
    recording.describe(kMachine, kClock);
    const Plan plan = small_plan(world.rank());
    recording.add(plan, equal_times(plan, 100 + 200 * world.rank()), "");
    recording.gather(world);
    EXPECT_EQ(recording.measured() > 0, world.rank() == 0);
    recording.write("now", "abc");
  });
  const CostFile file = read_costs(path());
  EXPECT_EQ(file.machine, kMachine);
  EXPECT_EQ(file.clock, kClock);
  EXPECT_EQ(file.time, "now");
  EXPECT_EQ(file.commit, "abc");
  const Plan plan = small_plan(0);
  const CostTable table("costs.json", file.costs);
  for (const Op& op : plan.ops) EXPECT_EQ(table.time(*compute_of(op), plan.tensors), 200'000);
  std::int64_t measured = 0;
  for (const auto& [key, cost] : file.costs) measured += cost.count;
  EXPECT_EQ(measured, 2 * std::ssize(plan.ops));
}

TEST_F(CostRecordings, AreWrittenAsOftenAsAsked) {
  const Plan plan = small_plan(0);
  run_thread_ranks(1, [&](World& world) {
    CostRecording recording(path(), false);
    recording.describe(kMachine, kClock);
    for (const std::int64_t ns : {100, 300}) {
      recording.add(plan, equal_times(plan, ns), "");
      recording.gather(world);
      recording.write("now", "abc");
      EXPECT_FALSE(read_costs(path()).costs.empty()) << "an end here would lose it";
    }
  });
  for (const auto& [key, cost] : read_costs(path()).costs) {
    EXPECT_EQ(cost.ns, 200);
    EXPECT_EQ(cost.count % 2, 0) << "of both times";
  }
}

TEST_F(CostRecordings, HoldCollectivesByTheirTransport) {
  run_thread_ranks(2, [&](World& world) {
    CostRecording recording(path(), false);
    const Workload workload = small_workload("tpsp/gemm_rs", 2, 8);
    const Plan plan = plans_of("comm_only", workload).at(static_cast<std::size_t>(world.rank()));
    recording.describe(kMachine, kClock);
    recording.add(plan, equal_times(plan, 700), "mpi");
    recording.gather(world);
    recording.write("now", "abc");
  });
  const CostFile file = read_costs(path());
  ASSERT_EQ(file.costs.size(), 1U);
  const auto& [key, cost] = *file.costs.begin();
  EXPECT_EQ(key.kind, "reduce_scatter");
  EXPECT_EQ(key.how, "mpi");
  EXPECT_EQ(key.sizes[0], 2);
  EXPECT_GT(key.sizes[1], 0);
  EXPECT_EQ(cost, (OpCost{700, 2, 0}));
}

TEST_F(CostRecordings, WithoutAnOpWriteNothing) {
  run_thread_ranks(2, [&](World& world) {
    CostRecording recording(path(), false);
    recording.gather(world);
    recording.write("now", "abc");
    EXPECT_EQ(recording.measured(), 0U);
  });
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(CostRecordings, AddToAFileThatIsResumed) {
  const OpKey other{"copy", "bf16", {1, 2, 0}};
  const Plan plan = small_plan(0);
  const OpKey again = key_of(*compute_of(plan.ops[0]), plan.tensors);
  write_costs(path(), {kMachine, kClock, "before", "abc", {{other, {5}}, {again, {6}}}});
  EXPECT_EQ(refused([&] { CostRecording(path(), false).open(); }),
            path() + " exists; name another file, or add to it with --resume");
  run_thread_ranks(1, [&](World& world) {
    CostRecording recording(path(), true);
    recording.open();
    recording.describe({{"host", "node2"}, {"cpu", "fast"}}, kClock);
    recording.add(plan, equal_times(plan, 100), "");
    recording.gather(world);
    recording.write("now", "abc");
    EXPECT_GT(recording.measured(), 0U);
  });
  const CostFile file = read_costs(path());
  EXPECT_EQ(file.costs.at(other).ns, 5);
  EXPECT_EQ(file.costs.at(again).ns, 100);
  EXPECT_EQ(file.time, "now");
  EXPECT_EQ(file.machine["host"], "node2");
}

TEST_F(CostRecordings, RefuseTimesOfAnotherMachineOrClock) {
  write_costs(path(), {kMachine, kClock, "before", "abc", {{{"copy", "bf16", {1, 2, 0}}, {5}}}});
  CostRecording recording(path(), true);
  recording.open();
  EXPECT_THAT(refused([&] {
                recording.describe({{"host", "node1"}, {"cpu", "slow"}}, kClock);
              }),
              HasSubstr("has times of another machine: "));
  EXPECT_EQ(refused([&] { recording.describe(kMachine, "thread CPU time"); }),
            path() + " has times by device time, these would be thread CPU time");
}

TEST_F(CostRecordings, RefuseAFileThatCannotBeUsed) {
  EXPECT_THAT(refused([&] { CostRecording(path() + "/no/costs.json", false).open(); }),
              HasSubstr("cannot be written: No such file or directory"));
  std::ofstream(path()) << "precious";
  EXPECT_THAT(refused([&] { CostRecording(path(), true).open(); }), HasSubstr("no file of costs"));
}

}  // namespace
}  // namespace commfuse

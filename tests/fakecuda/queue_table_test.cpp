// SPDX-License-Identifier: Apache-2.0
// Issue order against hardware queues: 4 ranks of three streams each (compute, send, receive). A
// blocked wait holds up the other streams of its queue.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/fakecuda/ce_reduce_scatter.h"
#include "tests/fakecuda/seeds.h"

namespace commfuse::fake {
namespace {

struct Column {
  bool one_device;
  std::size_t queues;
};

constexpr std::array<Column, 5> kColumns{
    {{false, 1}, {false, 2}, {false, 3}, {true, 8}, {true, 12}}};

std::uint64_t deadlocks(Route route, Issue issue, const Column& column) {
  std::uint64_t count = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    CeProgram program;
    program.ranks = 4;
    program.route = route;
    program.issue = issue;
    program.three_streams = true;
    program.one_device = column.one_device;
    program.measurements = 1;
    const CeResult result = run(program, seed, column.queues);
    EXPECT_EQ(result.wrong, 0);
    if (result.verdict.kind == Verdict::Kind::deadlock) {
      ++count;
    } else {
      EXPECT_TRUE(result.verdict.ok()) << result.verdict.message;
    }
  }
  return count;
}

TEST(QueueTable, StepOrderIsHarmlessOnItsOwnDeviceAndWaitsFirstAreNot) {
  fmt::print(
      "deadlocks of {} seeds           1 queue  2 queues  3 queues  one device, 8       12\n",
      kSeeds);
  for (const Route route : {Route::direct, Route::ring}) {
    for (const Issue issue : {Issue::steps, Issue::receives_first}) {
      const bool steps = issue == Issue::steps;
      std::array<std::uint64_t, kColumns.size()> counts{};
      for (std::size_t i = 0; i < kColumns.size(); ++i) {
        counts[i] = deadlocks(route, issue, kColumns[i]);
      }
      fmt::print("{:<8}{:<20}{:>11}{:>10}{:>10}{:>15}{:>9}\n",
                 route == Route::direct ? "direct" : "ring",
                 steps ? "step order" : "receive waits first", counts[0], counts[1], counts[2],
                 counts[3], counts[4]);
      EXPECT_EQ(counts[0], steps ? 0 : kSeeds);
      EXPECT_EQ(counts[1], steps ? 0 : kSeeds);
      EXPECT_EQ(counts[2], 0U);
      EXPECT_EQ(counts[3], kSeeds);
      EXPECT_EQ(counts[4], 0U);
    }
  }
}

}  // namespace
}  // namespace commfuse::fake

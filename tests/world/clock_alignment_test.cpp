// SPDX-License-Identifier: Apache-2.0
#include "harness/world/clock_alignment.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "harness/world/thread_world.h"
#include "tests/world/named_nodes.h"

namespace commfuse {
namespace {

/// The clock of a node that started at another time and runs at another rate.
struct NodeClock {
  std::int64_t ahead_ns = 0;
  double rate = 1;
  [[nodiscard]] std::int64_t now(std::int64_t true_ns) const {
    return static_cast<std::int64_t>(static_cast<double>(true_ns) * rate) + ahead_ns;
  }
};

// Ranks 0 and 2 on node a, 1 on b, 3 and 4 on c.
const std::array<std::string, 5> kHosts{"a", "b", "a", "c", "c"};
const std::array<NodeClock, 5> kClocks{
    {{0, 1}, {5'000'000'000, 1}, {0, 1}, {-7'000'000'000, 1}, {-7'000'000'000, 1}}};

TEST(ClockAlignment, OffsetsOfNodesAreFoundWithinTheirUncertainty) {
  run_thread_ranks(5, [](World& threads) {
    const auto rank = static_cast<std::size_t>(threads.rank());
    NamedNodes world(threads, kHosts[rank]);
    const ClockReading reading =
        compare_clocks(world, [&] { return kClocks[rank].now(monotonic_ns()); });
    EXPECT_LE(std::abs(reading.offset_ns + kClocks[rank].ahead_ns), reading.uncertainty_ns);
    EXPECT_EQ(reading.uncertainty_ns == 0, kHosts[rank] == "a");
    EXPECT_LT(reading.uncertainty_ns, 1'000'000'000);
  });
}

TEST(ClockAlignment, RanksOfANodeReadTheSame) {
  std::array<ClockReading, 5> readings;
  run_thread_ranks(5, [&](World& threads) {
    const auto rank = static_cast<std::size_t>(threads.rank());
    NamedNodes world(threads, kHosts[rank]);
    readings[rank] = compare_clocks(world, [&] { return kClocks[rank].now(monotonic_ns()); });
  });
  EXPECT_EQ(readings[3].offset_ns, readings[4].offset_ns);
  EXPECT_EQ(readings[3].local_ns, readings[4].local_ns);
}

TEST(ClockAlignment, OnOneNodeThereIsNothingToCompare) {
  run_thread_ranks(3, [](World& world) {
    const ClockReading reading = compare_clocks(world);
    EXPECT_EQ(reading.offset_ns, 0);
    EXPECT_EQ(reading.uncertainty_ns, 0);
  });
}

TEST(ClockAlignment, BetweenTwoComparisonsTheOffsetDriftsLinearly) {
  const ClockAlignment alignment{{1'000'000, 500, 20}, {2'000'000, 700, 30}};
  EXPECT_EQ(alignment.on_root(1'000'000), 1'000'500);
  EXPECT_EQ(alignment.on_root(1'500'000), 1'500'600);
  EXPECT_EQ(alignment.on_root(2'000'000), 2'000'700);
  EXPECT_EQ(alignment.uncertainty_ns(), 30);
  EXPECT_DOUBLE_EQ(alignment.drift_ppm(), 200);
}

TEST(ClockAlignment, WithoutTimeBetweenThemThereIsNoDrift) {
  const ClockAlignment alignment{{1'000'000, 500, 20}, {1'000'000, 700, 30}};
  EXPECT_EQ(alignment.on_root(1'000'000), 1'000'500);
  EXPECT_EQ(alignment.drift_ppm(), 0);
}

}  // namespace
}  // namespace commfuse

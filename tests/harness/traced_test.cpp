// SPDX-License-Identifier: Apache-2.0
#include "harness/traced.h"

#include <gtest/gtest.h>

#include <string>

#include "harness/world/thread_world.h"
#include "tests/harness/traced_executor.h"
#include "tests/world/named_nodes.h"

namespace commfuse {
namespace {

TracedSample sample(std::int64_t window, std::int64_t transfer, std::int64_t overlapped) {
  TracedSample traced;
  traced.summary.window = window;
  traced.summary.transfer = transfer;
  traced.summary.overlapped = overlapped;
  traced.counts = true;
  traced.by_copy_engine = true;
  return traced;
}

TEST(Traced, TimesAreThoseOfTheSlowestRank) {
  const std::vector<std::vector<TracedSample>> by_rank{{sample(100, 40, 10)},
                                                       {sample(200, 80, 60)}};
  const auto details = traced_details(by_rank, "", 160);
  EXPECT_EQ(details["iterations"], 1);
  EXPECT_EQ(details["counted"], 1);
  EXPECT_EQ(details["window_ns"], 200.0);
  EXPECT_EQ(details["traced_over_untraced"], 1.25);
  EXPECT_EQ(details["transfer_ns"], 80.0);
  EXPECT_EQ(details["overlap_hta"], 0.75);
  EXPECT_EQ(details["by_copy_engine"], true);
  EXPECT_FALSE(details.contains("not_counted"));
}

TEST(Traced, AnIterationCountsIfItDoesOnEveryRank) {
  TracedSample broken = sample(999, 1, 1);
  broken.counts = false;
  const std::vector<std::vector<TracedSample>> by_rank{{sample(100, 4, 4), sample(300, 4, 4)},
                                                       {broken, sample(200, 4, 4)}};
  const auto details = traced_details(by_rank, "3 records were dropped", 300);
  EXPECT_EQ(details["counted"], 1);
  EXPECT_EQ(details["window_ns"], 300.0);
  EXPECT_EQ(details["not_counted"], "3 records were dropped");
}

TEST(Traced, OneCopyByAMultiprocessorIsOneTooMany) {
  TracedSample by_sm = sample(100, 4, 4);
  by_sm.by_copy_engine = false;
  const std::vector<std::vector<TracedSample>> by_rank{{sample(100, 4, 4), by_sm}};
  EXPECT_EQ(traced_details(by_rank, "", 0)["by_copy_engine"], false);
}

TEST(Traced, TheClockIsAsGoodAsTheWorstRank) {
  TracedSample worse = sample(100, 4, 4);
  worse.uncertainty_ns = 70;
  const std::vector<std::vector<TracedSample>> by_rank{{sample(100, 4, 4)}, {worse}};
  EXPECT_EQ(traced_details(by_rank, "", 0)["clock_uncertainty_ns"], 70);
}

TEST(Traced, SkewIsHowFarApartRanksStarted) {
  TracedSample late = sample(100, 4, 4);
  late.start_ns = 30;
  const std::vector<std::vector<TracedSample>> by_rank{{sample(100, 4, 4)}, {late}};
  EXPECT_EQ(traced_details(by_rank, "", 0)["start_skew_ns"], 30.0);
}

/// What trace_plan says of two ranks with one iteration each.
nlohmann::ordered_json trace_two(bool one_node) {
  nlohmann::ordered_json details;
  run_thread_ranks(2, [&](World& threads) {
    NamedNodes nodes(threads, std::string(1, static_cast<char>('a' + threads.rank())));
    World& world = one_node ? threads : static_cast<World&>(nodes);
    TracedIteration iteration;
    iteration.timeline.end_ns = 100;
    TracedExecutor executor({iteration});
    const auto own = trace_plan(world, executor, 0, 100);
    if (world.rank() == 0) details = own;
  });
  return details;
}

TEST(Traced, AcrossNodesTheRecordSaysHowClocksWereAligned) {
  const auto details = trace_two(false);
  ASSERT_EQ(details["clocks"].size(), 2);
  EXPECT_EQ(details["clocks"][0]["uncertainty_ns"], 0);
  EXPECT_GT(details["clocks"][1]["uncertainty_ns"], 0);
  EXPECT_EQ(details["clock_uncertainty_ns"], details["clocks"][1]["uncertainty_ns"]);
  EXPECT_FALSE(trace_two(true).contains("clocks"));
}

TEST(Traced, ActivitiesOfNoOpAreCounted) {
  TracedSample with = sample(100, 4, 4);
  with.unattributed = 2;
  const std::vector<std::vector<TracedSample>> by_rank{{with, with}, {sample(90, 4, 4), with}};
  EXPECT_EQ(traced_details(by_rank, "", 0)["unattributed"], 6);
}

TEST(Traced, WhatNeverCountsHasNoTimes) {
  TracedSample broken;
  const std::vector<std::vector<TracedSample>> by_rank{{broken, broken}};
  const auto details = traced_details(by_rank, "sentinel 7 is missing", 100);
  EXPECT_EQ(details["counted"], 0);
  EXPECT_EQ(details["not_counted"], "sentinel 7 is missing");
  EXPECT_FALSE(details.contains("window_ns"));
}

}  // namespace
}  // namespace commfuse

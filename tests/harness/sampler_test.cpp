// SPDX-License-Identifier: Apache-2.0
#include "harness/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <random>

#include "harness/world/thread_world.h"

namespace commfuse {
namespace {

/// Runs a sampler with times that a function of (repetition) gives; returns the report of rank 0.
template <class Time>
SamplingReport sampled(const SamplingRule& rule, Time time) {
  SamplingReport report;
  run_thread_ranks(1, [&](World& world) {
    Sampler sampler(world, rule, 2);
    for (int i = 0; const auto order = sampler.next(); ++i) {
      for (const std::uint32_t run : *order) sampler.record(run, time(i));
    }
    report = sampler.report();
  });
  return report;
}

TEST(Sampler, StopsAtTheNumberAskedFor) {
  const SamplingReport report = sampled({.repetitions = 7}, [](int) { return 5.0; });
  EXPECT_EQ(report.repetitions, 7);
  EXPECT_TRUE(report.converged);
}

TEST(Sampler, StopsWhenThePrecisionIsReached) {
  const SamplingReport report = sampled({}, [](int) { return 5.0; });
  EXPECT_EQ(report.repetitions, Sampler::kFewest);
  EXPECT_TRUE(report.converged);
  EXPECT_EQ(report.reason, "precision reached");
}

TEST(Sampler, CaseB4NoticesAPlateau) {
  // Two levels that alternate: no number of repetitions narrows the interval of the median.
  const SamplingReport report = sampled({}, [](int i) { return i % 2 == 0 ? 1.0 : 9.0; });
  EXPECT_FALSE(report.converged);
  EXPECT_LT(report.repetitions, Sampler::kMost);
  EXPECT_TRUE(report.reason.starts_with("plateau")) << report.reason;
}

TEST(Sampler, CaseB12TheWallIsCapped) {
  const SamplingReport report =
      sampled({.repetitions = 1000000, .time_limit_s = 0.05}, [](int) { return 1.0; });
  EXPECT_EQ(report.reason, "time limit");
  EXPECT_FALSE(report.converged);
  EXPECT_LT(report.repetitions, 1000000);
}

TEST(Sampler, CaseB2OrderIsShuffledByOneSeed) {
  const auto order = [](std::uint64_t seed) {
    return sampled({.repetitions = 20, .seed = seed}, [](int) { return 1.0; }).order;
  };
  EXPECT_EQ(order(3), order(3));
  EXPECT_NE(order(3), order(4));
  for (auto repetition : order(3)) {
    std::ranges::sort(repetition);
    EXPECT_EQ(repetition, (std::vector<std::uint32_t>{0, 1}));
  }
}

TEST(Sampler, CaseB13RankZeroDecidesForAll) {
  // Ranks see different times; all must agree on count and order.
  std::vector<SamplingReport> reports(3);
  run_thread_ranks(3, [&](World& world) {
    std::mt19937 random(static_cast<unsigned>(world.rank()));
    Sampler sampler(world, {}, 3);
    while (const auto order = sampler.next()) {
      for (const std::uint32_t run : *order) sampler.record(run, 1 + random() % 100);
    }
    reports[static_cast<std::size_t>(world.rank())] = sampler.report();
  });
  EXPECT_EQ(reports[0].order, reports[1].order);
  EXPECT_EQ(reports[0].order, reports[2].order);
}

}  // namespace
}  // namespace commfuse

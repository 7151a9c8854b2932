// SPDX-License-Identifier: Apache-2.0
// Counts which injected bugs the machine finds, of 20 seeds: no finding in the right program, and
// every bug with every seed. No bug is impossible at P = 2: all sends of an iteration are issued
// before its receives, so no later flag of the peer stands in for a missing ack.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/fakecuda/ce_reduce_scatter.h"
#include "tests/fakecuda/seeds.h"

namespace commfuse::fake {
namespace {

constexpr std::array kRanks{2, 3, 4, 8};

struct Row {
  Bug bug;
  Verdict::Kind found;
  const char* name;
};

constexpr Verdict::Kind kRace = Verdict::Kind::race;
constexpr Verdict::Kind kDeadlock = Verdict::Kind::deadlock;

constexpr std::array kRows{
    Row{Bug::none, Verdict::Kind::ok, "none"},
    Row{Bug::no_event_wait, kRace, "no event wait between GEMM and copy"},
    Row{Bug::event_recorded_early, kRace, "event recorded before its GEMM"},
    Row{Bug::event_waited_early, kRace, "event waited for before it is recorded"},
    Row{Bug::block_overwritten, kRace, "send block overwritten before it was sent"},
    Row{Bug::flag_before_copy, kRace, "flag written before the copy"},
    Row{Bug::no_flag_wait, kRace, "no flag wait"},
    Row{Bug::flag_wait_low, kRace, "flag wait one epoch low"},
    Row{Bug::no_ack_wait, kRace, "no ack wait"},
    Row{Bug::ack_wait_low, kRace, "ack wait one epoch low"},
    Row{Bug::ack_before_read, kRace, "ack written before the read"},
    Row{Bug::epochs_restarted, kRace, "epochs restarted for a second measurement"},
    Row{Bug::no_ack_written, kDeadlock, "no ack written"},
    Row{Bug::flag_in_wrong_slot, kDeadlock, "flag in the wrong slot"},
};

/// In how many of the seeds the run ended as the row says. Without a finding it must be right.
std::uint64_t count(const Row& row, Route route, std::int32_t ranks) {
  std::uint64_t found = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    CeProgram program;
    program.ranks = ranks;
    program.route = route;
    program.bug = row.bug;
    const CeResult result = run(program, seed);
    if (result.verdict.kind == row.found) {
      ++found;
    } else {
      ADD_FAILURE() << row.name << ", seed " << seed << ": " << result.verdict.message;
    }
    if (!result.verdict.ok()) continue;
    EXPECT_EQ(result.wrong, 0);
    EXPECT_EQ(result.checked, std::int64_t{8} * ranks * program.iterations * program.measurements);
  }
  return found;
}

void count_all(Route route, const char* name) {
  fmt::print("{:<44}{:>10}", fmt::format("{}, of {} seeds", name, kSeeds), "found as");
  for (const std::int32_t ranks : kRanks) fmt::print("{:>7}", fmt::format("P={}", ranks));
  fmt::print("\n");
  for (const Row& row : kRows) {
    const bool clean = row.found == Verdict::Kind::ok;
    fmt::print("{:<44}{:>10}", row.name, clean ? "-" : row.found == kRace ? "race" : "deadlock");
    for (const std::int32_t ranks : kRanks) {
      const std::uint64_t found = count(row, route, ranks);
      fmt::print("{:>7}", clean ? kSeeds - found : found);
      EXPECT_EQ(found, kSeeds) << row.name << ", " << ranks << " ranks";
    }
    fmt::print("\n");
  }
}

TEST(BugTable, DirectFindsEveryBugWithEverySeed) { count_all(Route::direct, "direct"); }

TEST(BugTable, RingFindsEveryBugWithEverySeed) { count_all(Route::ring, "ring"); }

}  // namespace
}  // namespace commfuse::fake

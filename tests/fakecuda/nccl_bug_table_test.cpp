// SPDX-License-Identifier: Apache-2.0
// Counts which bugs in the use of NCCL are found, of 20 seeds: no finding in the right program, and
// every bug with every seed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/fakecuda/nccl_exchange.h"
#include "tests/fakecuda/seeds.h"

namespace commfuse::fake {
namespace {

using Kind = Verdict::Kind;

constexpr std::array kRanks{2, 3, 4, 8};

struct Row {
  NcclBug bug;
  Kind found;
  Kind found_by_two;  // with two ranks
  const char* name;
};

constexpr std::array kRows{
    Row{NcclBug::none, Kind::ok, Kind::ok, "none"},
    Row{NcclBug::ungrouped, Kind::deadlock, Kind::deadlock, "ungrouped send and receive"},
    Row{NcclBug::unequal_counts, Kind::mismatch, Kind::mismatch, "unequal counts"},
    // With two ranks there is one peer only: its messages meet, and differ in size.
    Row{NcclBug::reversed, Kind::deadlock, Kind::mismatch, "one rank's exchanges reversed"},
    Row{NcclBug::opposite_order, Kind::deadlock, Kind::deadlock,
        "two communicators in opposite order"},
    Row{NcclBug::in_place_self_send, Kind::race, Kind::race, "in-place send to itself"},
    Row{NcclBug::exchange_too_early, Kind::race, Kind::race,
        "exchange does not wait for its block"},
    Row{NcclBug::consumed_too_early, Kind::race, Kind::race, "received block read too early"},
    Row{NcclBug::overwritten_too_early, Kind::race, Kind::race,
        "block overwritten while it is sent"},
    Row{NcclBug::windows_reversed, Kind::mismatch, Kind::mismatch,
        "windows registered in opposite order"},
    Row{NcclBug::freed_too_early, Kind::use_after_free, Kind::use_after_free,
        "freed before it is deregistered"},
};

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::race:
      return "race";
    case Kind::deadlock:
      return "deadlock";
    case Kind::mismatch:
      return "mismatch";
    case Kind::use_after_free:
      return "freed";
    default:
      return "-";
  }
}

/// In how many of the seeds the run ended as the row says. Without a finding it must be right.
std::uint64_t count(const Row& row, std::int32_t ranks) {
  const Kind expected = ranks == 2 ? row.found_by_two : row.found;
  std::uint64_t found = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    NcclProgram program;
    program.ranks = ranks;
    program.bug = row.bug;
    const NcclProgramResult result = run(program, seed);
    if (result.verdict.kind == expected) {
      ++found;
    } else {
      ADD_FAILURE() << row.name << ", seed " << seed << ": " << result.verdict.message;
    }
    if (!result.verdict.ok()) continue;
    EXPECT_EQ(result.wrong, 0);
    EXPECT_EQ(result.checked, std::int64_t{20} * ranks * ranks * program.iterations);
  }
  return found;
}

TEST(NcclBugTable, FindsEveryBugWithEverySeed) {
  fmt::print("{:<44}{:>10}", fmt::format("NCCL, of {} seeds", kSeeds), "found as");
  for (const std::int32_t ranks : kRanks) fmt::print("{:>7}", fmt::format("P={}", ranks));
  fmt::print("\n");
  for (const Row& row : kRows) {
    fmt::print("{:<44}{:>10}", row.name, name_of(row.found));
    for (const std::int32_t ranks : kRanks) {
      const std::uint64_t found = count(row, ranks);
      fmt::print("{:>7}", row.found == Kind::ok ? kSeeds - found : found);
      EXPECT_EQ(found, kSeeds) << row.name << ", " << ranks << " ranks";
    }
    fmt::print("\n");
  }
}

}  // namespace
}  // namespace commfuse::fake

// SPDX-License-Identifier: Apache-2.0
#include "harness/world/watchdog.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <thread>

namespace commfuse {
namespace {

using std::chrono::milliseconds;

constexpr Watchdog::Limits kShort{milliseconds(1), milliseconds(50)};

void sleep_for(milliseconds time) { std::this_thread::sleep_for(time); }
[[noreturn]] void hang() {
  for (;;) pause();
}
void exit_now(int code) { _exit(code); }

std::string op_name(std::uint64_t op) { return "op " + std::to_string(op) + ", gemm slice 2"; }

// Ends that nobody survives are tried in a process of their own.
class WatchdogDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(WatchdogDeathTest, ExpiryNamesPhaseRankHostAndLastOperation) {
  const auto run = [] {
    Watchdog watchdog(3, "node07", milliseconds(100), exit_now, kShort);
    watchdog.results_in("r.jsonl");
    const auto outer = watchdog.guard("measure", op_name);
    const auto inner = watchdog.guard("iteration");
    watchdog.progress(16);
    watchdog.progress(17);
    hang();
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(4),
              "^commfuse-bench: timeout: rank 3 on node07 made no progress for 0.1 s\n"
              "  phase: measure > iteration\n"
              "  last finished: op 17, gemm slice 2\n"
              "  records so far are in r.jsonl; go on with --resume\n$");
}

TEST_F(WatchdogDeathTest, ARankThatStillRunsSaysOnceWhatItWaitsFor) {
  const auto run = [] {
    Watchdog watchdog(1, "here", milliseconds(50), exit_now, {milliseconds(400), milliseconds(50)});
    const auto phase = watchdog.guard("iteration");
    for (;;) {
      if (watchdog.asks()) watchdog.answer("  block from rank 0: 7 wanted, 6 there\n");
      sleep_for(milliseconds(1));
    }
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(4),
              "last finished: not reported in this phase\n"
              "commfuse-bench: rank 1 on here waits for\n"
              "  block from rank 0: 7 wanted, 6 there\n$");
}

TEST_F(WatchdogDeathTest, NothingFinishedIsSaid) {
  const auto run = [] {
    Watchdog watchdog(0, "here", milliseconds(50), exit_now, kShort);
    watchdog.progress(5);  // of an earlier phase
    const auto phase = watchdog.guard("warm-up", op_name);
    hang();
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(4), "last finished: nothing since warm-up began");
}

TEST_F(WatchdogDeathTest, PhasesThatReportNothingAndNoPhaseAreSaid) {
  const auto in_phase = [] {
    Watchdog watchdog(0, "here", milliseconds(50), exit_now, kShort);
    const auto phase = watchdog.guard("MPI_Init");
    hang();
  };
  EXPECT_EXIT(in_phase(), testing::ExitedWithCode(4),
              "phase: MPI_Init\n  last finished: not reported in this phase");
  const auto in_none = [] {
    const Watchdog watchdog(0, "here", milliseconds(50), exit_now, kShort);
    hang();
  };
  EXPECT_EXIT(in_none(), testing::ExitedWithCode(4), "phase: between phases");
}

TEST_F(WatchdogDeathTest, WithoutAFileNothingIsSaidOfResults) {
  const auto run = [] {
    Watchdog watchdog(
        0, "here", milliseconds(50),
        [](int code) {
          std::fprintf(stderr, "abort %d\n", code);
          _exit(code);
        },
        kShort);
    hang();
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(4), "not reported in this phase\nabort 4\n$");
}

TEST_F(WatchdogDeathTest, AnAbortThatHangsIsGivenUp) {
  const auto run = [] {
    Watchdog watchdog(
        2, "here", milliseconds(50), [](int) { hang(); }, kShort);
    hang();
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(4), "timeout: rank 2");
}

TEST_F(WatchdogDeathTest, EndOfAnIdlePhaseIsWatchedAgain) {
  const auto run = [] {
    Watchdog watchdog(0, "here", milliseconds(50), exit_now, kShort);
    {
      const auto idle = watchdog.idle("idle");
      sleep_for(milliseconds(100));
    }
    const auto phase = watchdog.guard("after");
    hang();
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(4), "phase: after");
}

TEST_F(WatchdogDeathTest, InterruptNamesThePhaseAndTheRecords) {
  const auto run = [] {
    Watchdog watchdog(1, "node07", milliseconds(0), exit_now, kShort);
    watchdog.results_in("r.jsonl");
    const auto phase = watchdog.guard("warm-up");
    watchdog.interrupted({.name = "SIGINT"});
  };
  EXPECT_EXIT(
      run(), testing::ExitedWithCode(11),
      "^commfuse-bench: interrupted by SIGINT in phase warm-up \\(rank 1 on node07\\); records so "
      "far are in r.jsonl; go on with --resume\n$");
}

TEST_F(WatchdogDeathTest, OnlyRankZeroSpeaksWhenTheLauncherEndsAll) {
  const auto run = [](std::int32_t rank) {
    Watchdog watchdog(
        rank, "here", milliseconds(0), [](int) { _exit(99); }, kShort);
    watchdog.interrupted({.name = "SIGTERM", .from_launcher = true});
  };
  EXPECT_EXIT(run(0), testing::ExitedWithCode(11), "interrupted by SIGTERM");
  EXPECT_EXIT(run(1), testing::ExitedWithCode(11), "^$");
}

TEST(Watchdog, LetsProgressAndPhasesGoOn) {
  Watchdog watchdog(0, "here", milliseconds(1000), exit_now, kShort);
  for (int i = 0; i < 65; ++i) {
    const auto phase = watchdog.guard("short");
    sleep_for(milliseconds(10));
  }
  const auto phase = watchdog.guard("long", op_name);
  for (int i = 0; i < 65; ++i) {
    watchdog.progress(7);  // the same op over and over is progress
    sleep_for(milliseconds(10));
  }
}

TEST(Watchdog, DoesNotWatchIdlePhasesNorPhasesInThem) {
  Watchdog watchdog(0, "here", milliseconds(400), exit_now, kShort);
  const auto idle = watchdog.idle("idle");
  sleep_for(milliseconds(300));
  const auto inner = watchdog.guard("inner");
  sleep_for(milliseconds(600));
}

TEST(Watchdog, TimeoutOfZeroNeverExpires) {
  Watchdog watchdog(0, "here", milliseconds(0), exit_now, kShort);
  const auto phase = watchdog.guard("endless");
  sleep_for(milliseconds(50));
}

TEST(Watchdog, EndsAtOnceWithALongTimeout) {
  const Watchdog watchdog(0, "here", std::chrono::hours(1), exit_now);
}

TEST(Watchdog, KnowsWhereItIs) {
  Watchdog watchdog(0, "here", std::chrono::hours(1), exit_now);
  EXPECT_EQ(watchdog.where(), "between phases");
  {
    const auto outer = watchdog.guard("outer");
    const auto inner = watchdog.idle("inner");
    EXPECT_EQ(watchdog.where(), "outer > inner");
  }
  EXPECT_EQ(watchdog.where(), "between phases");
}

}  // namespace
}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// Runs under mpirun that end badly: none may hang, and the exit code says what happened.
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "tests/world/subprocess.h"

namespace commfuse {
namespace {

// Against hanging only; Open MPI itself gives killed ranks a second or two.
constexpr std::chrono::seconds kLimit(60);

std::vector<std::string> probe(const std::string& how) {
  return {COMMFUSE_MPIEXEC, COMMFUSE_MPIEXEC_RANKS, "3", COMMFUSE_WORLD_PROBE, how};
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(MpiEnd, RankThatThrowsEndsAll) {
  Subprocess run(probe("throw"));
  EXPECT_EQ(run.wait(kLimit), 1) << run.output();
}

TEST(MpiEnd, AbortEndsAllWithItsCode) {
  Subprocess run(probe("abort"));
  EXPECT_EQ(run.wait(kLimit), 7) << run.output();
}

TEST(MpiEnd, RankThatIsKilledEndsAll) {
  Subprocess run(probe("kill"));
  EXPECT_GT(run.wait(kLimit), 0) << run.output();
}

TEST(MpiEnd, RankThatIsInterruptedEndsAllWithEleven) {
  Subprocess run(probe("terminate"));
  EXPECT_EQ(run.wait(kLimit), 11) << run.output();
  EXPECT_TRUE(contains(run.output(), "interrupted by SIGTERM in phase probe > barrier (rank 1 on"))
      << run.output();
}

TEST(MpiEnd, RankThatHangsIsATimeoutThatShowsWhoWaits) {
  Subprocess run(probe("hang"));
  EXPECT_EQ(run.wait(kLimit), 4) << run.output();
  EXPECT_TRUE(contains(run.output(), "made no progress for 3 s\n  phase: probe > barrier\n"))
      << run.output();
  EXPECT_TRUE(contains(run.output(), "last finished: op 4")) << run.output();
}

TEST(MpiEnd, HangingFinalizeIsATimeout) {
  Subprocess run(probe("finalize"));
  EXPECT_TRUE(run.wait_for("phase: probe > MPI_Finalize", kLimit)) << run.output();
  // The ranks end; but mpirun of Open MPI 4 sometimes stays when they abort inside MPI_Finalize.
  constexpr int kStillRuns = -2;
  const int code = run.wait(std::chrono::seconds(20));
  EXPECT_TRUE(code == 4 || code == kStillRuns) << code << "\n" << run.output();
}

TEST(MpiEnd, InterruptedLauncherEndsAllAndRankZeroSaysWhere) {
  Subprocess run(probe("pause"));
  ASSERT_TRUE(run.wait_for("ready", kLimit)) << run.output();
  run.signal(SIGINT);
  EXPECT_NE(run.wait(kLimit), 0) << run.output();
  EXPECT_TRUE(contains(run.output(), "in phase probe > barrier (rank 0 on")) << run.output();
  EXPECT_FALSE(contains(run.output(), "(rank 1 on")) << run.output();
}

}  // namespace
}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/world/process.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

namespace commfuse {
namespace {

// The environment as a launcher leaves it, whoever started this test.
class Launcher : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK",
                             "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_NTASKS"}) {
      unsetenv(name);
    }
  }
  static void set(const char* name, const char* value) { setenv(name, value, 1); }
};

TEST_F(Launcher, NoneLeavesNoTrace) {
  EXPECT_FALSE(launched_by_mpi());
  EXPECT_EQ(launcher_ranks(), std::nullopt);
  EXPECT_EQ(launcher_rank(), std::nullopt);
}

TEST_F(Launcher, OpenMpiIsFound) {
  set("OMPI_COMM_WORLD_SIZE", "8");
  set("OMPI_COMM_WORLD_RANK", "3");
  EXPECT_TRUE(launched_by_mpi());
  EXPECT_EQ(launcher_ranks(), 8);
  EXPECT_EQ(launcher_rank(), 3);
}

TEST_F(Launcher, MpichIsFound) {
  set("PMI_SIZE", "4");
  set("PMI_RANK", "0");
  EXPECT_EQ(launcher_ranks(), 4);
  EXPECT_EQ(launcher_rank(), 0);
}

TEST_F(Launcher, SrunIsFound) {
  set("SLURM_STEP_NUM_TASKS", "16");
  set("SLURM_PROCID", "15");
  EXPECT_EQ(launcher_ranks(), 16);
  EXPECT_EQ(launcher_rank(), 15);
}

TEST_F(Launcher, BatchScriptWithoutSrunIsNoLauncher) {
  set("SLURM_NTASKS", "16");
  set("SLURM_PROCID", "0");
  EXPECT_FALSE(launched_by_mpi());
}

TEST_F(Launcher, MpirunInsideOfSrunCounts) {
  set("SLURM_STEP_NUM_TASKS", "1");
  set("OMPI_COMM_WORLD_SIZE", "2");
  EXPECT_EQ(launcher_ranks(), 2);
}

TEST_F(Launcher, NonsenseIsNoLauncher) {
  set("PMI_SIZE", "many");
  EXPECT_FALSE(launched_by_mpi());
  set("PMI_SIZE", "4x");
  EXPECT_FALSE(launched_by_mpi());
}

TEST(Process, KnowsItsHost) { EXPECT_FALSE(host_name().empty()); }

TEST(ProcessDeathTest, ExitFlushesWhatWasPrinted) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::setvbuf(stderr, nullptr, _IOFBF, 4096);
        std::fputs("last words", stderr);
        flush_and_exit(9);
      },
      testing::ExitedWithCode(9), "last words");
}

}  // namespace
}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/world/thread_world.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "harness/world/doorbell.h"
#include "suite/error.h"
#include "tests/world/world_cases.h"

namespace commfuse {
namespace {

class ThreadWorlds : public testing::TestWithParam<std::tuple<WorldCase, int>> {};

TEST_P(ThreadWorlds, Behave) {
  const auto& [world_case, ranks] = GetParam();
  run_thread_ranks(ranks, world_case.run);
}

INSTANTIATE_TEST_SUITE_P(Cases, ThreadWorlds,
                         testing::Combine(testing::ValuesIn(world_cases().begin(),
                                                            world_cases().end()),
                                          testing::Values(1, 2, 3, 5, 7)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).name) + "_on_" +
                                  std::to_string(std::get<1>(test.param));
                         });

TEST(ThreadWorld, RunsEveryRankOnce) {
  std::vector<std::atomic<int>> runs(7);
  run_thread_ranks(7, [&](World& world) { ++runs[static_cast<std::size_t>(world.rank())]; });
  for (const auto& count : runs) EXPECT_EQ(count, 1);
}

TEST(ThreadWorld, RefusesNoRanks) {
  EXPECT_THROW(run_thread_ranks(0, [](World&) {}), UsageError);
}

// Whatever the others wait in, they get out of it.
using Wait = void (*)(World&);
class FailingRank : public testing::TestWithParam<Wait> {};

TEST_P(FailingRank, LetsTheOthersOut) {
  std::atomic<int> broken{0};
  try {
    run_thread_ranks(5, [&](World& world) {
      if (world.rank() == 3) throw UsageError("no such thing");
      try {
        GetParam()(world);
      } catch (const WorldBroken&) {
        ++broken;
        throw;
      }
    });
    FAIL() << "nothing was thrown";
  } catch (const RankError& error) {
    EXPECT_EQ(error.rank(), 3);
    EXPECT_STREQ(error.what(), "rank 3: no such thing");
    EXPECT_THROW(std::rethrow_exception(error.cause()), UsageError);
  }
  EXPECT_EQ(broken, 4);
}

INSTANTIATE_TEST_SUITE_P(Waits, FailingRank,
                         testing::Values([](World& world) { world.barrier(); },
                                         [](World& world) { world.idle_barrier(); },
                                         [](World& world) { world.max(0); },
                                         [](World& world) { world.gather({}, 0); },
                                         [](World& world) { world.broadcast({}, 3); },
                                         [](World& world) { world.shared(8); },
                                         [](World& world) { world.split(0); }));

TEST(ThreadWorld, FailureReachesTheWorldsThatWereSplitOff) {
  EXPECT_THROW(run_thread_ranks(5,
                                [](World& world) {
                                  const auto part = world.split(world.rank() % 2);
                                  if (world.rank() == 4) throw std::runtime_error("late");
                                  part->barrier();  // ranks 1 and 3 meet, 0 and 2 wait for 4
                                  world.barrier();
                                }),
               RankError);
}

TEST(ThreadWorld, ExceptionsOfUnknownTypeAreReported) {
  try {
    run_thread_ranks(2, [](World& world) {
      if (world.rank() == 1) throw 7;
      world.barrier();
    });
    FAIL() << "nothing was thrown";
  } catch (const RankError& error) {
    EXPECT_STREQ(error.what(), "rank 1: an exception of unknown type");
  }
}

TEST(ThreadWorldDeathTest, RanksThatWaitElsewhereDoNotHangTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_thread_ranks(
                  2,
                  [](World& world) {
                    if (world.rank() == 0) throw std::runtime_error("broke down");
                    Doorbell bell;
                    bell.wait_past(bell.sequence(), kNeverNs);
                  },
                  std::chrono::milliseconds(50)),
              testing::ExitedWithCode(1), "rank 0: broke down; other ranks still wait for it");
}

TEST(ThreadWorldDeathTest, AbortEndsAllRanksWithItsCode) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_thread_ranks(3,
                               [](World& world) {
                                 if (world.rank() == 1) world.abort(7);
                                 world.barrier();
                               }),
              testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace commfuse

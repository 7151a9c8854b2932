// SPDX-License-Identifier: Apache-2.0
#include "harness/world/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <vector>

#include "harness/world/thread_world.h"

namespace commfuse {
namespace {

std::vector<int> usable_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  EXPECT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &mask)) cores.push_back(core);
  }
  return cores;
}

void pin_this_thread(int core) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(core, &mask);
  EXPECT_EQ(sched_setaffinity(0, sizeof mask, &mask), 0);
}

TEST(Cores, RanksBoundToOneCoreEachHaveOneEach) {
  const auto cores = usable_cores();
  if (cores.size() < 2) GTEST_SKIP() << "needs two cores";
  run_thread_ranks(2, [&](World& world) {
    pin_this_thread(cores[static_cast<std::size_t>(world.rank())]);
    EXPECT_EQ(cores_of_this_thread(), 1);
    const NodeCores node = node_cores(world);
    EXPECT_EQ(node.ranks, 2);
    EXPECT_EQ(node.cores, 2);
    EXPECT_TRUE(node.one_each());
  });
}

TEST(Cores, RanksOnTheSameCoreDoNot) {
  const auto cores = usable_cores();
  run_thread_ranks(3, [&](World& world) {
    pin_this_thread(cores.front());
    const NodeCores node = node_cores(world);
    EXPECT_EQ(node.ranks, 3);
    EXPECT_EQ(node.cores, 1);
    EXPECT_FALSE(node.one_each());
  });
}

}  // namespace
}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// The kernel's files, in a made-up tree.
#include "harness/cuda/node_affinity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <fstream>

#include "tests/cuda/made_up_root.h"

namespace commfuse::fake {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(NodeAffinity, ListsOfProcessorsAreParsed) {
  EXPECT_THAT(parse_cpu_list("0-3,8,10-11\n"), ElementsAre(0, 1, 2, 3, 8, 10, 11));
  EXPECT_THAT(parse_cpu_list("5"), ElementsAre(5));
  EXPECT_THAT(parse_cpu_list(""), IsEmpty());
  EXPECT_THAT(parse_cpu_list("1,x"), ElementsAre(1));
  EXPECT_LT(parse_cpu_list("0-2000000000").size(), 100'000U);
}

TEST(NodeAffinity, ADeviceIsFoundInEitherCase) {
  const MadeUpRoot root;
  root.write("sys/bus/pci/devices/0000:ab:00.0/numa_node", "1\n");
  root.write("sys/bus/pci/devices/0000:01:00.0/numa_node", "-1\n");
  EXPECT_EQ(memory_node_of(root.path(), "0000:AB:00.0"), 1);
  EXPECT_EQ(memory_node_of(root.path(), "0000:01:00.0"), kNoNode);
  EXPECT_EQ(memory_node_of(root.path(), "0000:02:00.0"), kNoNode);
}

TEST(NodeAffinity, NodesHaveProcessors) {
  const MadeUpRoot root;
  root.write("sys/devices/system/node/node0/cpulist", "0-1\n");
  root.write("sys/devices/system/node/node12/cpulist", "2,3\n");
  root.write("sys/devices/system/node/possible", "0-1\n");
  const auto nodes = processors_of_nodes(root.path());
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_THAT(nodes.at(0), ElementsAre(0, 1));
  EXPECT_THAT(nodes.at(12), ElementsAre(2, 3));
}

TEST(NodeAffinity, NetworkCardsAreListedByName) {
  const MadeUpRoot root;
  root.write("sys/class/infiniband/mlx5_1/device/numa_node", "1\n");
  root.write("sys/class/infiniband/mlx5_0/device/numa_node", "0\n");
  const auto cards = network_cards(root.path());
  ASSERT_EQ(cards.size(), 2U);
  EXPECT_EQ(cards[0].name, "mlx5_0");
  EXPECT_EQ(cards[1].node, 1);
}

TEST(NodeAffinity, RightsToProfileAreRead) {
  const MadeUpRoot root;
  EXPECT_FALSE(profiling_for_administrators(root.path()).has_value());
  root.write("proc/driver/nvidia/params", "ResmanDebugLevel: 1\nRmProfilingAdminOnly: 0\n");
  EXPECT_EQ(profiling_for_administrators(root.path()), false);
  root.write("proc/driver/nvidia/params", "RmProfilingAdminOnly: 1\nOther: 0\n");
  EXPECT_EQ(profiling_for_administrators(root.path()), true);
}

TEST(NodeAffinity, AnEmptyTreeSaysNothing) {
  const MadeUpRoot root;
  EXPECT_TRUE(processors_of_nodes(root.path()).empty());
  EXPECT_TRUE(network_cards(root.path()).empty());
}

TEST(NodeAffinity, AllowedProcessorsAreThoseOfTheMask) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  EXPECT_EQ(allowed_processors().size(), static_cast<std::size_t>(CPU_COUNT(&set)));
}

}  // namespace
}  // namespace commfuse::fake

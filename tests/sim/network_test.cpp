// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/network.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace commfuse {
namespace {

std::vector<std::int32_t> first(std::int32_t ranks) {
  std::vector<std::int32_t> places(static_cast<std::size_t>(ranks));
  std::iota(places.begin(), places.end(), 0);
  return places;
}

/// Two ranks a node; 1 byte takes 1 ps inside and 10 ps outside; no latency.
Network nodes_of_two(std::int32_t nics) {
  Network network;
  network.inner = {1e12, 0};
  network.outer = {1e11, 0};
  network.ranks_per_node = 2;
  network.nics_per_node = nics;
  return network;
}

TEST(Network, CollectivesTakeTheLatencyOfEveryStepAndTheBytesOnce) {
  Network network;
  network.inner = {1e9, 1e-6};
  for (const auto algorithm : {CollectiveAlgorithm::ring, CollectiveAlgorithm::pairwise}) {
    network.algorithm = algorithm;
    EXPECT_EQ(network.collective_time(CollectiveKind::all_gather, 3000, first(4)),
              3 * 1'000'000 + 3'000'000);
    EXPECT_EQ(network.collective_time(CollectiveKind::all_reduce, 6000, first(4)),
              6 * 1'000'000 + 6'000'000);
  }
}

TEST(Network, AFittedLatencyReplacesThatOfTheLinkInCollectivesOnly) {
  Network network;
  network.inner = {1e9, 1e-6};
  network.step_latency_seconds[std::size_t(CollectiveKind::reduce_scatter)] = 5e-6;
  EXPECT_EQ(network.collective_time(CollectiveKind::reduce_scatter, 1000, first(2)), 6'000'000);
  EXPECT_EQ(network.collective_time(CollectiveKind::all_gather, 1000, first(2)), 2'000'000);
  EXPECT_EQ(network.link(0, 1).latency_seconds, 1e-6);
}

TEST(Network, OneRankMovesNothing) {
  EXPECT_EQ(nodes_of_two(1).collective_time(CollectiveKind::all_gather, 0, first(1)), 0);
}

TEST(Network, AnUnlimitedLinkTakesItsLatency) {
  Network network;
  network.inner = {0, 2e-6};
  EXPECT_EQ(network.collective_time(CollectiveKind::all_gather, 1 << 30, first(3)), 4'000'000);
  EXPECT_EQ(busy_time(network.inner, 1e9), 0);
}

TEST(Network, ARingCrossesEachNodeBoundaryOnceAStep) {
  // 3 steps of a block of 100 bytes, each as slow as its way between nodes.
  EXPECT_EQ(nodes_of_two(1).collective_time(CollectiveKind::all_gather, 300, first(4)), 3 * 1000);
}

TEST(Network, PairwiseStepsShareTheNicsOfANode) {
  // Of 4 ranks, step 1 and step 3 take one rank of each node over the NIC, step 2 takes both.
  Network network = nodes_of_two(1);
  network.algorithm = CollectiveAlgorithm::pairwise;
  EXPECT_EQ(network.collective_time(CollectiveKind::all_gather, 300, first(4)), 1000 + 2000 + 1000);
  network.nics_per_node = 2;
  EXPECT_EQ(network.collective_time(CollectiveKind::all_gather, 300, first(4)), 3 * 1000);
}

TEST(Network, AnAllToAllIsPairwiseUnderEitherAlgorithm) {
  const Network ring = nodes_of_two(1);
  Network pairwise = ring;
  pairwise.algorithm = CollectiveAlgorithm::pairwise;
  EXPECT_EQ(ring.collective_time(CollectiveKind::all_to_all, 300, first(4)),
            pairwise.collective_time(CollectiveKind::all_to_all, 300, first(4)));
}

TEST(Network, MessagesOfANodeHaveAPortEachAndThoseBetweenNodesShareTheNic) {
  const Network network = nodes_of_two(1);
  constexpr std::int32_t kPlaces = 4;
  EXPECT_NE(network.egress(0, 1, kPlaces), network.egress(1, 0, kPlaces));
  EXPECT_EQ(network.egress(0, 2, kPlaces), network.egress(1, 3, kPlaces));
  EXPECT_EQ(network.ingress(0, 2, kPlaces), network.ingress(1, 3, kPlaces));
  EXPECT_NE(network.egress(0, 2, kPlaces), network.egress(2, 0, kPlaces));
  EXPECT_EQ(network.ports(kPlaces), 4U + 2U);
}

}  // namespace
}  // namespace commfuse

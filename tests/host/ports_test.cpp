// SPDX-License-Identifier: Apache-2.0
#include "harness/host/ports.h"

#include <gtest/gtest.h>

#include <array>

namespace commfuse {
namespace {

TEST(Ports, AMessageStartsWhenItIsReadyIfBothPortsAreFree) {
  std::array<Port, 2> state{};
  Ports ports(state);
  EXPECT_EQ(ports.reserve(0, 1, 100, 30), 100);
  EXPECT_EQ(ports.reserve(0, 1, 500, 30), 500);
}

TEST(Ports, TheEgressPortSerialisesMessagesToDifferentRanks) {
  std::array<Port, 3> state{};
  Ports ports(state);
  EXPECT_EQ(ports.reserve(0, 1, 100, 30), 100);
  EXPECT_EQ(ports.reserve(0, 2, 110, 30), 130);
  EXPECT_EQ(ports.reserve(0, 1, 110, 30), 160);
}

TEST(Ports, TheIngressPortSerialisesMessagesFromDifferentRanks) {
  std::array<Port, 3> state{};
  Ports ports(state);
  EXPECT_EQ(ports.reserve(1, 0, 100, 30), 100);
  EXPECT_EQ(ports.reserve(2, 0, 100, 30), 130);
}

TEST(Ports, DirectionsAndPairsAreIndependent) {
  std::array<Port, 4> state{};
  Ports ports(state);
  EXPECT_EQ(ports.reserve(0, 1, 100, 30), 100);
  EXPECT_EQ(ports.reserve(1, 0, 100, 30), 100);
  EXPECT_EQ(ports.reserve(2, 3, 100, 30), 100);
}

TEST(Ports, WhatNeedsAllPortsWaitsForAllAndKeepsAllBusy) {
  std::array<Port, 3> state{};
  Ports ports(state);
  EXPECT_EQ(ports.reserve(0, 1, 100, 50), 100);
  EXPECT_EQ(ports.reserve_all(120, 40), 150);
  EXPECT_EQ(ports.reserve(2, 0, 130, 10), 190);
}

}  // namespace
}  // namespace commfuse

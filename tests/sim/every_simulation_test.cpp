// SPDX-License-Identifier: Apache-2.0
// What must hold of the times of every plan under every protocol, found from the plans alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "harness/sim/simulation.h"
#include "tests/impls/small_workloads.h"

namespace commfuse {
namespace {

/// Odd times, the same for equal seeds.
std::vector<Picoseconds> random_times(const Plan& plan, std::uint32_t seed) {
  std::minstd_rand random(seed + static_cast<std::uint32_t>(plan.rank) + 1);
  std::vector<Picoseconds> times;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) times.push_back(random() % 10'007);
  return times;
}

class RankTimes {
 public:
  RankTimes(const Simulation& simulation, const Plan& plan)
      : graph_(simulation.graph()), rank_(graph_.ranks()[static_cast<std::size_t>(plan.rank)]) {}

  [[nodiscard]] const EventNode& op(OpId id) const { return graph_.nodes()[rank_.first_op + id]; }
  [[nodiscard]] const EventNode& message(MessageId id) const {
    return graph_.nodes()[rank_.first_message + id];
  }
  [[nodiscard]] Picoseconds end_of(const Dependency& on, const Plan& plan) const {
    const auto* exchange = std::get_if<Exchange>(&plan.ops[on.op].work);
    if (exchange == nullptr) return op(on.op).end;
    if (on.message != kWholeOp) return message(on.message).end;
    Picoseconds last = 0;
    for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
      last = std::max(last, message(m).end);
    }
    return last;
  }

 private:
  const EventGraph& graph_;
  RankEvents rank_;
};

/// Nothing begins before what it depends on has ended; nothing ends before it begins.
void expect_causality(const Plan& plan, const RankTimes& times) {
  for (OpId id = 0; id < plan.ops.size(); ++id) {
    const Op& op = plan.ops[id];
    if (const auto* exchange = std::get_if<Exchange>(&op.work)) {
      for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
        EXPECT_LE(times.message(m).begin, times.message(m).end);
        for (const Dependency& on : plan.dependencies_of(plan.messages[m])) {
          EXPECT_GE(times.message(m).begin, times.end_of(on, plan)) << "message " << m;
        }
      }
      continue;
    }
    EXPECT_LE(times.op(id).begin, times.op(id).end);
    for (const Dependency& on : plan.dependencies_of(op)) {
      EXPECT_GE(times.op(id).begin, times.end_of(on, plan)) << "op " << id;
    }
  }
}

/// Ops and collectives of a lane follow each other.
void expect_lane_order(const Plan& plan, const RankTimes& times) {
  std::array<Picoseconds, kLanes> free{};
  for (OpId id = 0; id < plan.ops.size(); ++id) {
    if (std::holds_alternative<Exchange>(plan.ops[id].work)) continue;
    Picoseconds& lane = free[index_of(plan.ops[id].lane)];
    EXPECT_GE(times.op(id).begin, lane) << "op " << id;
    lane = times.op(id).end;
  }
}

/// Messages through one port do not overlap while they keep it busy.
void expect_exclusive_ports(const std::vector<Plan>& plans, const Simulation& simulation,
                            const LinkSpeed& link) {
  using Interval = std::pair<Picoseconds, Picoseconds>;
  std::vector<std::vector<Interval>> egress(plans.size()), ingress(plans.size());
  for (const Plan& plan : plans) {
    const RankTimes times(simulation, plan);
    for (MessageId m = 0; m < plan.messages.size(); ++m) {
      const Message& message = plan.messages[m];
      if (!message.send) continue;
      const Picoseconds begin = times.message(m).begin;
      const Interval busy{begin, begin + busy_time(link, static_cast<double>(message.wire_bytes))};
      EXPECT_EQ(times.message(m).end, busy.second + picoseconds(link.latency_seconds));
      egress[static_cast<std::size_t>(plan.rank)].push_back(busy);
      ingress[static_cast<std::size_t>(message.peer)].push_back(busy);
    }
  }
  for (auto* ports : {&egress, &ingress}) {
    for (std::vector<Interval>& port : *ports) {
      std::ranges::sort(port);
      for (std::size_t i = 1; i < port.size(); ++i) {
        EXPECT_GE(port[i].first, port[i - 1].second);
      }
    }
  }
}

void expect_sound_times(const std::vector<Plan>& plans, Protocol protocol, std::uint32_t seed) {
  Network network;
  network.inner = {37e9, 1.3e-9};
  Simulation simulation(network, protocol);
  for (const Plan& plan : plans) simulation.add(plan, plan.rank, random_times(plan, seed));
  ASSERT_NO_THROW(simulation.run());
  for (const Plan& plan : plans) {
    const RankTimes times(simulation, plan);
    expect_causality(plan, times);
    expect_lane_order(plan, times);
  }
  expect_exclusive_ports(plans, simulation, network.inner);

  Simulation again(network, protocol);
  for (const Plan& plan : plans) again.add(plan, plan.rank, random_times(plan, seed));
  again.run();
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    EXPECT_EQ(simulation.end(rank), again.end(rank));
  }
}

class EverySimulation : public testing::TestWithParam<std::int32_t> {};

TEST_P(EverySimulation, KeepsDependenciesLanesAndPorts) {
  for (const WorkloadEntry& entry : workloads()) {
    const Workload workload = small_workload(selector_of(entry), GetParam(), 8);
    for (const std::string_view spec : every_implementation()) {
      const Implementation made = make_implementation(spec, workload);
      if (!unsupported(made, workload).empty()) continue;
      const std::vector<Plan> plans = build_plans(made, workload);
      for (const Protocol protocol : {Protocol::put, Protocol::rendezvous, Protocol::joint}) {
        SCOPED_TRACE(fmt::format("{}, {}, {}", made.name, selector_of(entry), name_of(protocol)));
        expect_sound_times(plans, protocol, 7);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, EverySimulation, testing::Values(1, 2, 3, 5, 8),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace commfuse

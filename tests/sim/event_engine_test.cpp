// SPDX-License-Identifier: Apache-2.0
// Plans written by hand on a link where a slot takes 10 us and the way 1 us; a copy takes as long
// as the test says.
#include "harness/sim/event_engine.h"

#include <gtest/gtest.h>

#include <functional>

#include "harness/sim/simulation.h"
#include "impls/verify.h"

namespace commfuse {
namespace {

constexpr Picoseconds kMicrosecond = 1'000'000;
constexpr std::int32_t kColumns = 1000;  // fp32: 4,000 bytes a slot

View slot(std::int32_t row) { return {.tensor = 0, .row = row, .rows = 1, .cols = kColumns}; }
Copy copy(std::int32_t to, std::int32_t from) { return {slot(to), slot(from)}; }
PlanBuilder::Transfer send(std::int32_t peer, std::int32_t row) { return {true, peer, slot(row)}; }
PlanBuilder::Transfer receive(std::int32_t peer, std::int32_t row) {
  return {false, peer, slot(row)};
}

Network slow_network() {
  Network network;
  network.inner = {400e6, 1e-6};
  return network;
}

using Emit = std::function<void(PlanBuilder&)>;

Plan hand_plan(std::int32_t rank, std::int32_t ranks, const Emit& emit) {
  Workload workload;
  workload.ranks = ranks;
  workload.tensors = {{"slots", 16, kColumns, DType::f32}};
  PlanBuilder builder(workload, rank);
  emit(builder);
  return builder.take({}, {});
}

/// Times of what ran, by rank; compute ops take `op_us` each.
Simulation run(const std::vector<Emit>& ranks, Picoseconds op_us = 0,
               Protocol protocol = Protocol::put, const Network& network = slow_network()) {
  Simulation simulation(network, protocol);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Plan plan = hand_plan(static_cast<std::int32_t>(rank),
                                static_cast<std::int32_t>(ranks.size()), ranks[rank]);
    const std::vector<Picoseconds> times(plan.ops.size(), op_us * kMicrosecond);
    simulation.add(plan, static_cast<std::int32_t>(rank), times);
  }
  simulation.run();
  return simulation;
}

/// Of message m of a rank, in microseconds.
std::pair<std::int64_t, std::int64_t> message(const Simulation& simulation, std::size_t rank,
                                              std::uint32_t m) {
  const EventGraph& graph = simulation.graph();
  const EventNode& node = graph.nodes()[graph.ranks()[rank].first_message + m];
  return {node.begin / kMicrosecond, node.end / kMicrosecond};
}
std::pair<std::int64_t, std::int64_t> op(const Simulation& simulation, std::size_t rank,
                                         std::uint32_t number) {
  const EventGraph& graph = simulation.graph();
  const EventNode& node = graph.nodes()[graph.ranks()[rank].first_op + number];
  return {node.begin / kMicrosecond, node.end / kMicrosecond};
}
using Times = std::pair<std::int64_t, std::int64_t>;

void exchange(PlanBuilder& plan, Lane lane, std::vector<PlanBuilder::Transfer> transfers) {
  plan.exchange(lane, transfers);
}

TEST(EventEngine, AMessageTakesItsBytesAndTheLatencyOnBothSides) {
  const Simulation done = run({[](PlanBuilder& p) { exchange(p, Lane::gather, {send(1, 0)}); },
                               [](PlanBuilder& p) { exchange(p, Lane::gather, {receive(0, 0)}); }});
  EXPECT_EQ(message(done, 0, 0), (Times{0, 11}));
  EXPECT_EQ(message(done, 1, 0), (Times{0, 11}));
  EXPECT_EQ(done.events(), 2U);
}

TEST(EventEngine, LatencyDoesNotKeepThePortBusy) {
  const Simulation done = run({[](PlanBuilder& p) {
                                 exchange(p, Lane::gather, {send(1, 0)});
                                 exchange(p, Lane::gather, {send(1, 1)});
                               },
                               [](PlanBuilder& p) {
                                 exchange(p, Lane::gather, {receive(0, 0)});
                                 exchange(p, Lane::gather, {receive(0, 1)});
                               }});
  EXPECT_EQ(message(done, 0, 1), (Times{10, 21}));
}

TEST(EventEngine, ReceiversPortServesWhoComesFirst) {
  // Rank 1 computes before it sends; both want to rank 2.
  const Simulation done = run({[](PlanBuilder& p) { exchange(p, Lane::gather, {send(2, 0)}); },
                               [](PlanBuilder& p) {
                                 p.compute(copy(0, 1));
                                 exchange(p, Lane::gather, {send(2, 0)});
                               },
                               [](PlanBuilder& p) {
                                 exchange(p, Lane::gather, {receive(1, 0)});
                                 exchange(p, Lane::gather, {receive(0, 1)});
                               }},
                              4);
  EXPECT_EQ(message(done, 0, 0), (Times{0, 11}));
  EXPECT_EQ(message(done, 1, 0), (Times{10, 21}));
}

TEST(EventEngine, WhatWaitsForAFarPortHoldsItsOwn) {
  // Rank 1 -> 2 waits for rank 0 -> 2; what rank 1 sends to rank 3 comes after it.
  const Simulation done = run({[](PlanBuilder& p) { exchange(p, Lane::gather, {send(2, 0)}); },
                               [](PlanBuilder& p) {
                                 p.compute(copy(0, 1));
                                 exchange(p, Lane::gather, {send(2, 0)});
                                 exchange(p, Lane::scatter, {send(3, 0)});
                               },
                               [](PlanBuilder& p) {
                                 exchange(p, Lane::gather, {receive(0, 0), receive(1, 1)});
                               },
                               [](PlanBuilder& p) { exchange(p, Lane::scatter, {receive(1, 0)}); }},
                              4);
  EXPECT_EQ(message(done, 1, 0), (Times{10, 21}));
  EXPECT_EQ(message(done, 1, 1), (Times{20, 31}));
}

/// Rank 0 sends what a long op makes and receives what is there at once; an op needs the latter.
std::vector<Emit> late_send() {
  return {[](PlanBuilder& p) {
            p.compute(copy(0, 1));
            exchange(p, Lane::gather, {send(1, 0), receive(1, 2)});
            p.compute(copy(3, 2));
          },
          [](PlanBuilder& p) {
            exchange(p, Lane::gather, {receive(0, 0), send(0, 2)});
          }};
}

TEST(EventEngine, UnderPutAMessageWaitsForNothingElse) {
  const Simulation done = run(late_send(), 50);
  EXPECT_EQ(message(done, 0, 1), (Times{0, 11}));
  EXPECT_EQ(message(done, 0, 0), (Times{50, 61}));
  EXPECT_EQ(op(done, 0, 2), (Times{50, 100}));
}

TEST(EventEngine, UnderRendezvousAnExchangeStartsAsAWhole) {
  const Simulation done = run(late_send(), 50, Protocol::rendezvous);
  EXPECT_EQ(message(done, 0, 1), (Times{50, 61}));
  EXPECT_EQ(op(done, 0, 2), (Times{61, 111}));
}

/// The op needs the short one of two messages.
std::vector<Emit> unequal_pair() {
  const View large{.tensor = 0, .row = 4, .rows = 5, .cols = kColumns};
  return {[=](PlanBuilder& p) {
            exchange(p, Lane::gather, {receive(1, 2), {true, 1, large}});
            p.compute(copy(3, 2));
          },
          [=](PlanBuilder& p) {
            exchange(p, Lane::gather, {send(0, 2), {false, 0, large}});
          }};
}

TEST(EventEngine, UnderJointAnExchangeIsDoneAsAWhole) {
  EXPECT_EQ(op(run(unequal_pair(), 5, Protocol::rendezvous), 0, 1), (Times{11, 16}));
  EXPECT_EQ(op(run(unequal_pair(), 5, Protocol::joint), 0, 1), (Times{51, 56}));
}

TEST(EventEngine, UnderJointAnExchangeHoldsItsLane) {
  const std::vector<Emit> ranks{[](PlanBuilder& p) {
                                  exchange(p, Lane::gather, {send(1, 0)});
                                  exchange(p, Lane::gather, {send(1, 1)});
                                },
                                [](PlanBuilder& p) {
                                  exchange(p, Lane::gather, {receive(0, 0)});
                                  exchange(p, Lane::gather, {receive(0, 1)});
                                }};
  EXPECT_EQ(message(run(ranks, 0, Protocol::joint), 0, 1), (Times{11, 22}));
}

Collective gather_of(std::int32_t rank, std::int32_t ranks) {
  return {CollectiveKind::all_gather,
          slot(rank),
          {.tensor = 0, .row = 0, .rows = ranks, .cols = kColumns}};
}

TEST(EventEngine, ACollectiveWaitsForItsRanksAndForWhatWasQueuedBefore) {
  const auto rank = [](std::int32_t self, bool computes) {
    return [=](PlanBuilder& p) {
      if (computes) p.compute(copy(self, 8));
      p.collective(Lane::gather, gather_of(self, 2));
      exchange(p, Lane::scatter, {self == 0 ? send(1, 9) : receive(0, 9)});
    };
  };
  // The message is ready at 0 and the collective at 4: it goes when the port is free, for one step.
  const Simulation done = run({rank(0, false), rank(1, true)}, 4);
  EXPECT_EQ(message(done, 0, 0), (Times{0, 11}));
  EXPECT_EQ(op(done, 0, 0), (Times{10, 21}));
  EXPECT_EQ(op(done, 1, 1), (Times{10, 21}));
}

TEST(EventEngine, WhatComesAfterACollectiveOnItsLaneWaitsForItsEnd) {
  const auto rank = [](std::int32_t self) {
    return [=](PlanBuilder& p) {
      p.collective(Lane::gather, gather_of(self, 2));
      exchange(p, Lane::gather, {self == 0 ? send(1, 9) : receive(0, 9)});
    };
  };
  EXPECT_EQ(message(run({rank(0), rank(1)}), 0, 0), (Times{11, 22}));
}

TEST(EventEngine, RanksOfANodeShareItsNic) {
  Network network = slow_network();
  network.outer = {200e6, 2e-6};
  network.ranks_per_node = 2;
  const auto sender = [](std::int32_t to) {
    return [=](PlanBuilder& p) { exchange(p, Lane::gather, {send(to, 0)}); };
  };
  const auto receiver = [](std::int32_t from) {
    return [=](PlanBuilder& p) { exchange(p, Lane::gather, {receive(from, 0)}); };
  };
  const Simulation done =
      run({sender(2), sender(3), receiver(0), receiver(1)}, 0, Protocol::put, network);
  EXPECT_EQ(message(done, 0, 0), (Times{0, 22}));
  EXPECT_EQ(message(done, 1, 0), (Times{20, 42}));
}

TEST(EventEngine, ACollectiveBetweenNodesKeepsTheNicsOfAllItsRanksBusy) {
  Network network = slow_network();
  network.outer = {200e6, 2e-6};
  network.ranks_per_node = 2;
  network.nics_per_node = 2;
  const auto rank = [](std::int32_t self) {
    return [=](PlanBuilder& p) {
      p.collective(Lane::gather, gather_of(self, 4));
      if (self == 0) exchange(p, Lane::scatter, {send(2, 9)});
      if (self == 2) {
        p.compute(copy(8, 10));  // its landing is free once the collective has started
        exchange(p, Lane::scatter, {receive(0, 8)});
      }
    };
  };
  // Three steps of 22 us.
  const Simulation done = run({rank(0), rank(1), rank(2), rank(3)}, 5, Protocol::put, network);
  EXPECT_EQ(op(done, 0, 0), (Times{0, 66}));
  EXPECT_EQ(message(done, 0, 0), (Times{66, 88}));
}

TEST(EventEngine, GroupsMeetOnlyAmongThemselves) {
  Simulation simulation(slow_network(), Protocol::put);
  for (std::int32_t group = 0; group < 2; ++group) {
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      const Plan plan = hand_plan(rank, 2, [&](PlanBuilder& p) {
        if (group == 1) p.compute(copy(rank, 8));
        p.collective(Lane::gather, gather_of(rank, 2));
      });
      const std::vector<Picoseconds> times(plan.ops.size(), 7 * kMicrosecond);
      simulation.add(plan, group + 2 * rank, times);  // strided, as along a mesh's second axis
    }
  }
  simulation.run();
  EXPECT_EQ(simulation.end(0), 11 * kMicrosecond);
  EXPECT_EQ(simulation.end(1), 11 * kMicrosecond);
  EXPECT_EQ(simulation.end(3), 18 * kMicrosecond);
}

TEST(EventEngine, TimelinesHaveTheSpansOfThePlanInNanoseconds) {
  const Simulation done = run(late_send(), 50);
  const Timeline timeline = done.timeline(0);
  ASSERT_EQ(timeline.spans.size(), 4U);
  EXPECT_EQ(timeline.start_ns, 0);
  EXPECT_EQ(timeline.end_ns, 100'000);
  EXPECT_EQ(timeline.spans[1].op, 2U);
  EXPECT_EQ(timeline.spans[1].begin_ns, 50'000);
  EXPECT_EQ(timeline.spans[1].kind, SpanKind::overhead);
  EXPECT_EQ(timeline.spans[2].message, 0);
  EXPECT_TRUE(timeline.spans[2].send);
  EXPECT_EQ(timeline.spans[2].end_ns, 61'000);
}

TEST(EventEngine, AMessageThatNobodyTakesIsAnError) {
  EXPECT_THROW(run({[](PlanBuilder& p) { exchange(p, Lane::gather, {send(1, 0)}); },
                    [](PlanBuilder& p) { p.compute(copy(0, 1)); }}),
               PlanError);
}

TEST(EventEngine, SidesOfDifferentSizesAreAnError) {
  const View two{.tensor = 0, .row = 0, .rows = 2, .cols = kColumns};
  EXPECT_THROW(run({[](PlanBuilder& p) { exchange(p, Lane::gather, {send(1, 0)}); },
                    [&](PlanBuilder& p) {
                      exchange(p, Lane::gather, {{false, 0, two}});
                    }}),
               PlanError);
}

TEST(EventEngine, CollectivesThatDifferAreAnError) {
  const auto rank = [](std::int32_t self) {
    return [=](PlanBuilder& p) {
      Collective collective = gather_of(self, 2);
      if (self == 1) std::swap(collective.send, collective.receive);
      if (self == 1) collective.kind = CollectiveKind::reduce_scatter;
      p.collective(Lane::gather, collective);
    };
  };
  EXPECT_THROW(run({rank(0), rank(1)}), PlanError);
}

TEST(EventEngine, WhoWaitsForEachOtherIsAnError) {
  // Each rank sends on, as a whole exchange, what it still has to receive.
  const auto rank = [](std::int32_t self) {
    const std::int32_t other = 1 - self;
    return [=](PlanBuilder& p) {
      exchange(p, Lane::gather, {receive(other, 1)});
      exchange(p, Lane::scatter, {send(other, 1), receive(other, 2)});
      exchange(p, Lane::gather, {send(other, 2)});
    };
  };
  EXPECT_THROW(run({rank(0), rank(1)}, 0, Protocol::joint), PlanError);
}

TEST(EventEngine, TimeHasAnEnd) {
  const auto rank = [](PlanBuilder& p) {
    for (int i = 0; i < 8; ++i) p.compute(copy(0, 1));
  };
  EXPECT_THROW(run({rank}, kEndOfTime / kMicrosecond / 4), std::length_error);
  EXPECT_NO_THROW(run({rank}, kEndOfTime / kMicrosecond / 8));
  EXPECT_THROW(picoseconds(1e20), std::length_error);
  EXPECT_THROW(picoseconds(1.0 / 0.0), std::length_error);
}

TEST(EventEngine, RanksAreAddedInTurnAndWhole) {
  const auto nothing = [](PlanBuilder& p) { p.compute(copy(0, 1)); };
  const std::vector<Picoseconds> one{0};
  Simulation out_of_turn(slow_network(), Protocol::put);
  EXPECT_THROW(out_of_turn.add(hand_plan(1, 2, nothing), 1, one), std::invalid_argument);
  Simulation part(slow_network(), Protocol::put);
  part.add(hand_plan(0, 2, nothing), 0, one);
  EXPECT_THROW(part.run(), std::invalid_argument);
  Simulation without_times(slow_network(), Protocol::put);
  EXPECT_THROW(without_times.add(hand_plan(0, 1, nothing), 0, {}), std::invalid_argument);
  EXPECT_THROW(Simulation(slow_network(), Protocol::put).run(), std::invalid_argument);
}

}  // namespace
}  // namespace commfuse

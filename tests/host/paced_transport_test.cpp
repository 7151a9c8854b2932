// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the paced link, on stamps. Where a copy really ended too late the stamps say so
// and the arithmetic does not hold; such runs are repeated.
#include "harness/host/paced_transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

#include "tests/host/hand_plans.h"

namespace commfuse {
namespace {

// Long beside whatever delays a wire's thread on a busy machine.
constexpr LinkSpeed kLink{.bytes_per_second = 1e6, .latency_seconds = 0.020};
constexpr std::int64_t kLatencyNs = 20'000'000;
constexpr std::int64_t kBusyNs = kSlotBytes * 1000;  // of one slot

using Timelines = std::vector<std::vector<Timeline>>;  // by rank, then iteration

/// Runs the plan that `emit` gives each rank, until nothing was late.
Timelines run_on_time(std::int32_t ranks, std::size_t iterations,
                      const std::function<void(PlanBuilder&)>& emit) {
  for (int attempt = 0; attempt < 5; ++attempt) {
    Timelines timelines(static_cast<std::size_t>(ranks), std::vector<Timeline>(iterations));
    std::atomic<std::int64_t> late{0};
    run_thread_ranks(ranks, [&](World& world) {
      const Workload workload = slot_workload(ranks);
      HostExecutor executor(world, workload.tensors, workload.weights,
                            std::make_unique<PacedTransport>(world));
      executor.set_link(kLink);
      const PlanHandle plan = executor.prepare(hand_plan(world.rank(), ranks, emit));
      executor.run(plan, Mode::steady, timelines[static_cast<std::size_t>(world.rank())]);
      late += executor.take_wire_report().late;
    });
    if (late == 0) return timelines;
  }
  ADD_FAILURE() << "five runs in a row had a copy that took longer than 20 ms";
  return {};
}

const Span& span_of_op(const Timeline& timeline, OpId op) {
  return *std::find_if(timeline.spans.begin(), timeline.spans.end(),
                       [&](const Span& span) { return span.op == op && span.message < 0; });
}

const Span& span_of_message(const Timeline& timeline, std::int32_t message) {
  return *std::find_if(timeline.spans.begin(), timeline.spans.end(),
                       [&](const Span& span) { return span.message == message; });
}

void exchange(PlanBuilder& plan, Lane lane, std::initializer_list<PlanBuilder::Transfer> list) {
  plan.exchange(lane, std::vector<PlanBuilder::Transfer>(list));
}

TEST(PacedTransport, AMessageStartsAtItsDependencyAndTakesLatencyPlusBytesOverBandwidth) {
  const Timelines timelines = run_on_time(2, 1, [](PlanBuilder& plan) {
    if (plan.rank() == 0) {
      plan.compute(copy_slot(1, 0));
      exchange(plan, Lane::scatter, {send(1, 1)});
    } else {
      exchange(plan, Lane::scatter, {receive(0, 2)});
      plan.compute(copy_slot(3, 2));
    }
  });
  ASSERT_EQ(timelines.size(), 2U);
  const Timeline& sender = timelines[0][0];
  const Timeline& receiver = timelines[1][0];
  const Span& sent = span_of_message(sender, 0);
  const Span& received = span_of_message(receiver, 0);
  EXPECT_EQ(sent.begin_ns, std::max(span_of_op(sender, 0).end_ns, receiver.start_ns));
  EXPECT_EQ(sent.end_ns, sent.begin_ns + kBusyNs + kLatencyNs);
  EXPECT_EQ(received.begin_ns, sent.begin_ns);
  EXPECT_EQ(received.end_ns, sent.end_ns);
  EXPECT_GE(span_of_op(receiver, 1).begin_ns, received.end_ns);
  EXPECT_EQ(sender.end_ns, sent.end_ns);  // the window lasts until the send is complete
}

TEST(PacedTransport, TheEgressPortSerialisesTheLanes) {
  const Timelines timelines = run_on_time(3, 1, [](PlanBuilder& plan) {
    if (plan.rank() == 0) {
      plan.compute(copy_slot(1, 0));
      exchange(plan, Lane::gather, {send(1, 1)});
      exchange(plan, Lane::scatter, {send(2, 1)});
    } else {
      exchange(plan, plan.rank() == 1 ? Lane::gather : Lane::scatter, {receive(0, 2)});
    }
  });
  ASSERT_EQ(timelines.size(), 3U);
  std::array<std::int64_t, 2> begins{span_of_message(timelines[0][0], 0).begin_ns,
                                     span_of_message(timelines[0][0], 1).begin_ns};
  const std::int64_t copied_ns = span_of_op(timelines[0][0], 0).end_ns;
  const std::array<std::int64_t, 2> ready{std::max(copied_ns, timelines[1][0].start_ns),
                                          std::max(copied_ns, timelines[2][0].start_ns)};
  const std::size_t first = begins[0] <= begins[1] ? 0 : 1;
  EXPECT_EQ(begins[first], ready[first]);
  EXPECT_EQ(begins[1 - first], std::max(ready[1 - first], begins[first] + kBusyNs));
}

TEST(PacedTransport, TheIngressPortSerialisesTheSenders) {
  const Timelines timelines = run_on_time(3, 1, [](PlanBuilder& plan) {
    if (plan.rank() == 0) {
      exchange(plan, Lane::scatter, {receive(1, 1), receive(2, 2)});
    } else {
      exchange(plan, Lane::scatter, {send(0, 0)});
    }
  });
  ASSERT_EQ(timelines.size(), 3U);
  std::array<std::int64_t, 2> begins{span_of_message(timelines[0][0], 0).begin_ns,
                                     span_of_message(timelines[0][0], 1).begin_ns};
  std::sort(begins.begin(), begins.end());
  EXPECT_GE(begins[1], begins[0] + kBusyNs);
}

TEST(PacedTransport, WhatIsPassedOnStartsTheMomentItArrived) {
  const Timelines timelines = run_on_time(3, 1, [](PlanBuilder& plan) {
    if (plan.rank() > 0) exchange(plan, Lane::gather, {receive(plan.rank() - 1, 1)});
    if (plan.rank() < 2) exchange(plan, Lane::gather, {send(plan.rank() + 1, 1)});
  });
  ASSERT_EQ(timelines.size(), 3U);
  const Span& first = span_of_message(timelines[1][0], 0);
  const Span& second = span_of_message(timelines[2][0], 0);
  // However late the wire's thread of rank 1 woke up.
  EXPECT_EQ(second.begin_ns, std::max(first.end_ns, timelines[2][0].start_ns));
}

TEST(PacedTransport, AReceiveDoesNotWaitForTheSendBesideIt) {
  const Timelines timelines = run_on_time(2, 1, [](PlanBuilder& plan) {
    if (plan.rank() == 0) {
      exchange(plan, Lane::scatter, {receive(1, 1)});
      exchange(plan, Lane::gather, {send(1, 1), receive(1, 2)});
    } else {
      exchange(plan, Lane::gather, {send(0, 3), receive(0, 4)});
      exchange(plan, Lane::scatter, {send(0, 5)});
    }
  });
  ASSERT_EQ(timelines.size(), 2U);
  // Rank 0's send on the gather lane waits for a message; the receive beside it does not.
  const Span& awaited = span_of_message(timelines[0][0], 0);
  EXPECT_GE(span_of_message(timelines[0][0], 1).begin_ns, awaited.end_ns);
  EXPECT_LT(span_of_message(timelines[0][0], 2).begin_ns, awaited.end_ns);
}

TEST(PacedTransport, ASendWaitsUntilItsReceiveIsPosted) {
  const Timelines timelines = run_on_time(2, 1, [](PlanBuilder& plan) {
    if (plan.rank() == 0) {
      exchange(plan, Lane::scatter, {send(1, 1)});
      exchange(plan, Lane::scatter, {send(1, 1)});
    } else {
      exchange(plan, Lane::scatter, {receive(0, 2)});
      plan.compute(copy_slot(3, 2));
      exchange(plan, Lane::scatter, {receive(0, 2)});  // the same view: free when it was copied
    }
  });
  ASSERT_EQ(timelines.size(), 2U);
  EXPECT_EQ(span_of_message(timelines[1][0], 1).begin_ns, span_of_op(timelines[1][0], 1).end_ns);
}

TEST(PacedTransport, ACollectiveStartsWithTheLastRankAndTakesTheStepsOfARing) {
  const auto steps = [](CollectiveKind kind) { return kind == CollectiveKind::all_reduce ? 4 : 2; };
  for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                    CollectiveKind::all_to_all, CollectiveKind::all_reduce}) {
    const Timelines timelines = run_on_time(3, 1, [&](PlanBuilder& plan) {
      for (std::int32_t i = 0; i <= plan.rank(); ++i) plan.compute(copy_slot(0, 7));
      const bool gathers = kind == CollectiveKind::all_gather;
      const bool scatters = kind == CollectiveKind::reduce_scatter;
      plan.collective(Lane::compute, {kind, gathers ? slots(0) : slots(0, 3),
                                      scatters ? slots(4) : slots(gathers ? 1 : 3, 3)});
    });
    ASSERT_EQ(timelines.size(), 3U);
    std::int64_t last_ns = 0;
    for (std::int32_t rank = 0; rank < 3; ++rank) {
      const Timeline& timeline = timelines[static_cast<std::size_t>(rank)][0];
      last_ns = std::max(last_ns, span_of_op(timeline, static_cast<OpId>(rank)).end_ns);
    }
    for (std::int32_t rank = 0; rank < 3; ++rank) {
      const Timeline& timeline = timelines[static_cast<std::size_t>(rank)][0];
      const Span& span = span_of_op(timeline, static_cast<OpId>(rank) + 1);
      EXPECT_EQ(span.begin_ns, last_ns);
      EXPECT_EQ(span.end_ns, last_ns + steps(kind) * (kLatencyNs + kBusyNs));
    }
  }
}

TEST(PacedTransport, ALaneKeepsItsOrderAroundACollective) {
  const Timelines timelines = run_on_time(2, 1, [](PlanBuilder& plan) {
    const bool first = plan.rank() == 0;
    exchange(plan, Lane::gather, {first ? send(1, 0) : receive(0, 1)});
    plan.collective(Lane::gather, {CollectiveKind::all_gather, slots(2), slots(3, 2)});
    exchange(plan, Lane::gather, {first ? receive(1, 5) : send(0, 6)});
  });
  ASSERT_EQ(timelines.size(), 2U);
  const Timeline& timeline = timelines[0][0];
  const Span& before = span_of_message(timeline, 0);
  const Span& collective = span_of_op(timeline, 1);
  const Span& after = span_of_message(timeline, 1);
  EXPECT_EQ(collective.begin_ns, before.begin_ns + kBusyNs);  // when the ports are free
  EXPECT_EQ(collective.end_ns, collective.begin_ns + kLatencyNs + kBusyNs);
  EXPECT_EQ(after.begin_ns, collective.end_ns);
}

TEST(PacedTransport, AReceiveIsPostedWhenTheCollectiveThatWroteItsViewIsComplete) {
  const Timelines timelines = run_on_time(2, 1, [](PlanBuilder& plan) {
    const bool first = plan.rank() == 0;
    plan.collective(Lane::gather, {CollectiveKind::all_gather, slots(2), slots(3, 2)});
    exchange(plan, Lane::scatter, {first ? send(1, 2) : receive(0, 3)});
  });
  ASSERT_EQ(timelines.size(), 2U);
  // On another lane, so that only the view orders the two; the ports are free by then.
  EXPECT_EQ(span_of_message(timelines[0][0], 0).begin_ns, span_of_op(timelines[0][0], 0).end_ns);
}

TEST(PacedTransport, TheNextIterationDoesNotOverwriteWhatIsStillRead) {
  const Timelines timelines = run_on_time(2, 3, [](PlanBuilder& plan) {
    if (plan.rank() == 0) {
      exchange(plan, Lane::scatter, {send(1, 1)});
    } else {
      exchange(plan, Lane::scatter, {receive(0, 2)});
      plan.compute(copy_slot(3, 2));
    }
  });
  ASSERT_EQ(timelines.size(), 2U);
  for (std::size_t i = 1; i < 3; ++i) {
    EXPECT_EQ(span_of_message(timelines[1][i], 0).begin_ns,
              span_of_op(timelines[1][i - 1], 1).end_ns);
    EXPECT_EQ(timelines[1][i].start_ns, timelines[1][i - 1].end_ns);
  }
}

TEST(PacedTransport, IterationsOverlapWhereNothingForbidsIt) {
  const Timelines timelines = run_on_time(2, 2, [](PlanBuilder& plan) {
    if (plan.rank() == 0) {
      exchange(plan, Lane::scatter, {send(1, 1)});
      exchange(plan, Lane::gather, {receive(1, 2)});
    } else {
      exchange(plan, Lane::scatter, {receive(0, 2)});
      exchange(plan, Lane::scatter, {receive(0, 3)});
      exchange(plan, Lane::gather, {send(0, 4)});
    }
    if (plan.rank() == 0) exchange(plan, Lane::scatter, {send(1, 5)});
  });
  ASSERT_EQ(timelines.size(), 2U);
  // The gather lane has one message per iteration, the scatter lane two: its second iteration
  // begins while the scatter lane is still in the first.
  EXPECT_LT(span_of_message(timelines[0][1], 1).begin_ns,
            span_of_message(timelines[0][0], 2).end_ns);
}

TEST(PacedTransport, TheLinkMayChangeBetweenRuns) {
  run_thread_ranks(2, [](World& world) {
    const Workload workload = slot_workload(2);
    HostExecutor executor(world, workload.tensors, workload.weights,
                          std::make_unique<PacedTransport>(world));
    const PlanHandle plan = executor.prepare(hand_plan(world.rank(), 2, [](PlanBuilder& builder) {
      exchange(builder, Lane::gather, {builder.rank() == 0 ? send(1, 0) : receive(0, 0)});
    }));
    for (const double bytes_per_second : {1e6, 1e5}) {
      executor.set_link({.bytes_per_second = bytes_per_second, .latency_seconds = 0.001});
      std::vector<Timeline> mine(1);
      executor.run(plan, Mode::isolated, mine);
      const Span& span = mine[0].spans[0];
      EXPECT_GE(span.end_ns - span.begin_ns,
                1'000'000 + static_cast<std::int64_t>(kSlotBytes / bytes_per_second * 1e9));
    }
  });
}

TEST(PacedTransport, ReportsWhatWasLate) {
  run_thread_ranks(2, [](World& world) {
    const Workload workload = slot_workload(2);
    HostExecutor executor(world, workload.tensors, workload.weights,
                          std::make_unique<PacedTransport>(world));
    executor.set_link({});  // nothing can be as fast as an unlimited link
    const PlanHandle plan = executor.prepare(hand_plan(world.rank(), 2, [](PlanBuilder& builder) {
      exchange(builder, Lane::gather, {builder.rank() == 0 ? send(1, 0) : receive(0, 0)});
    }));
    std::vector<Timeline> timelines(3);
    executor.run(plan, Mode::steady, timelines);
    const WireReport report = executor.take_wire_report();
    EXPECT_EQ(report.transfers, world.rank() == 0 ? 3 : 0);
    EXPECT_EQ(report.late, report.transfers);
    EXPECT_EQ(report.latest_ns > 0, world.rank() == 0);
    EXPECT_EQ(report.copy_ns > 0, world.rank() == 0);
    EXPECT_EQ(executor.take_wire_report().transfers, 0);
  });
}

TEST(PacedTransport, RanksWithDifferentCollectivesAreRefused) {
  run_thread_ranks(2, [](World& world) {
    const Workload workload = slot_workload(2);
    HostExecutor executor(world, workload.tensors, workload.weights,
                          std::make_unique<PacedTransport>(world));
    const Plan plan = hand_plan(world.rank(), 2, [](PlanBuilder& builder) {
      const Lane lane = builder.rank() == 0 ? Lane::gather : Lane::scatter;
      builder.collective(lane, {CollectiveKind::all_gather, slots(0), slots(1, 2)});
    });
    EXPECT_THROW(executor.prepare(plan), std::runtime_error);
  });
}

TEST(PacedTransport, AMessageThatMeetsNoReceiveIsRefused) {
  run_thread_ranks(2, [](World& world) {
    const Workload workload = slot_workload(2);
    HostExecutor executor(world, workload.tensors, workload.weights,
                          std::make_unique<PacedTransport>(world));
    const Plan plan = hand_plan(world.rank(), 2, [](PlanBuilder& builder) {
      const bool first = builder.rank() == 0;
      exchange(builder, first ? Lane::gather : Lane::scatter, {first ? send(1, 0) : receive(0, 0)});
    });
    if (world.rank() == 0) {
      EXPECT_THROW(executor.prepare(plan), std::runtime_error);
    } else {
      executor.prepare(plan);
    }
  });
}

TEST(PacedTransport, AChannelThatIsGivenUpLetsItsWireGo) {
  run_thread_ranks(2, [](World& world) {
    const Program program(hand_plan(world.rank(), 2, [](PlanBuilder& builder) {
      exchange(builder, Lane::gather, {builder.rank() == 0 ? send(1, 0) : receive(0, 0)});
    }));
    const Workload workload = slot_workload(2);
    TensorMemory memory(world, workload.tensors, [](std::size_t) { return true; });
    const std::vector<Storage> storages{{workload.tensors, {memory.block(0, 0)}},
                                        {workload.tensors, {memory.block(0, 1)}}};
    PacedTransport transport(world);
    const std::unique_ptr<Channel> channel = transport.open(program, storages);
    std::vector<Timeline> timelines(1);
    timelines[0].spans.assign(program.spans().begin(), program.spans().end());
    if (world.rank() == 0) channel->begin({1, monotonic_ns(), timelines});  // rank 1 never does
  });
}

}  // namespace
}  // namespace commfuse

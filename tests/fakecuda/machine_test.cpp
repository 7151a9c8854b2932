// SPDX-License-Identifier: Apache-2.0
// The machine: what its calls order, what ends a run, virtual time, replay.
#include "tests/fakecuda/machine.h"
#include "tests/fakecuda/seeds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace commfuse::fake {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Kind = Verdict::Kind;

Work writing(const void* data, std::int64_t duration_ns = 0) {
  return {"writer", {}, {{data, 4}}, duration_ns, {}};
}

Work reading(const void* data, std::int64_t duration_ns = 0) {
  return {"reader", {{data, 4}}, {}, duration_ns, {}};
}

/// One rank, two streams and an event; every seed ends the same way.
struct Pair {
  Machine& machine;
  StreamId first, second;
  EventId event;
  std::byte* data;
};

void expect_pair(Kind kind, const std::function<void(const Pair&)>& body,
                 const std::string& part = "") {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Machine machine({seed});
    const Verdict verdict = machine.run(1, [&](std::int32_t) {
      Pair pair{machine, machine.create_stream("first"), machine.create_stream("second"),
                machine.create_event("event"), machine.allocate(64, "data")};
      body(pair);
    });
    EXPECT_EQ(verdict.kind, kind) << verdict.message;
    EXPECT_THAT(verdict.message, HasSubstr(part));
  }
}

TEST(Machine, UnorderedWritesOfTwoStreamsRace) {
  expect_pair(
      Kind::race,
      [](const Pair& p) {
        p.machine.set_label("some op");
        p.machine.work(p.first, writing(p.data));
        p.machine.work(p.second, writing(p.data + 2));
      },
      "bytes [2, 4) of rank 0 data");
}

TEST(Machine, DisjointWritesAndCommonReadsDoNotRace) {
  expect_pair(Kind::ok, [](const Pair& p) {
    p.machine.work(p.first, writing(p.data));
    p.machine.work(p.second, writing(p.data + 4));
    p.machine.synchronise_device(0);
    p.machine.work(p.first, reading(p.data));
    p.machine.work(p.second, reading(p.data));
  });
}

TEST(Machine, AnEventOrders) {
  expect_pair(Kind::ok, [](const Pair& p) {
    p.machine.work(p.first, writing(p.data));
    p.machine.record(p.first, p.event);
    p.machine.wait(p.second, p.event);
    p.machine.work(p.second, reading(p.data));
  });
}

TEST(Machine, AnEventWaitRefersToTheRecordBeforeTheHostCall) {
  expect_pair(Kind::race, [](const Pair& p) {
    p.machine.host_work(writing(p.data));
    p.machine.wait(p.second, p.event);
    p.machine.work(p.first, writing(p.data));
    p.machine.record(p.first, p.event);
    p.machine.work(p.second, reading(p.data));
  });
}

TEST(Machine, SynchronisingOrdersWithTheHost) {
  expect_pair(Kind::ok, [](const Pair& p) {
    p.machine.work(p.first, writing(p.data));
    p.machine.synchronise(p.first);
    p.machine.work(p.second, writing(p.data));
    p.machine.record(p.second, p.event);
    p.machine.synchronise(p.event);
    p.machine.host_work(reading(p.data));
  });
  expect_pair(Kind::race, [](const Pair& p) {
    p.machine.host_work(writing(p.data));
    p.machine.work(p.first, writing(p.data));
    p.machine.host_work(reading(p.data));
    p.machine.synchronise(p.first);
  });
}

TEST(Machine, AQueryThatSaysYesOrders) {
  expect_pair(Kind::ok, [](const Pair& p) {
    EXPECT_TRUE(p.machine.query(p.event));
    p.machine.work(p.first, writing(p.data));
    p.machine.record(p.first, p.event);
    while (!p.machine.query(p.event)) continue;
    p.machine.host_work(reading(p.data));
  });
}

TEST(Machine, PollingInVainIsADeadlock) {
  expect_pair(
      Kind::deadlock,
      [](const Pair& p) {
        p.machine.host_work(writing(p.data));
        p.machine.wait_value(p.first, p.data, 1, Compare::equal);
        while (!p.machine.query(p.first)) continue;
      },
      "polls in vain");
}

TEST(Machine, ReadsOfPoisonBadRangesAndFreedMemoryAreFound) {
  expect_pair(
      Kind::poison, [](const Pair& p) { p.machine.work(p.first, reading(p.data)); },
      "nobody wrote byte 0");
  expect_pair(
      Kind::poison, [](const Pair& p) { p.machine.wait_value(p.first, p.data, 1); }, "data");
  expect_pair(
      Kind::out_of_bounds, [](const Pair& p) { p.machine.work(p.first, writing(p.data + 61)); },
      "bytes [61, 65) of rank 0 data, which has 64 bytes");
  static int outside = 0;
  expect_pair(Kind::out_of_bounds,
              [](const Pair& p) { p.machine.write_value(p.first, &outside, 1); });
  expect_pair(Kind::use_after_free, [](const Pair& p) {
    p.machine.release(p.data);
    p.machine.work(p.first, writing(p.data));
  });
  expect_pair(Kind::use_after_free, [](const Pair& p) {
    p.machine.release(p.data);
    p.machine.release(p.data);
  });
}

TEST(Machine, AFreeThatDoesNotWaitIsFoundInEitherOrder) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Machine machine({seed});
    const Verdict verdict = machine.run(1, [&](std::int32_t) {
      std::byte* data = machine.allocate(64, "data");
      machine.work(machine.create_stream("stream"), writing(data));
      machine.release(data);
    });
    EXPECT_TRUE(verdict.kind == Kind::race || verdict.kind == Kind::use_after_free);
  }
}

TEST(Machine, ExceptionsOfHostsAndBodiesAreHostErrors) {
  expect_pair(
      Kind::host_error, [](const Pair&) { throw std::runtime_error("why"); }, "rank 0 host: why");
  expect_pair(
      Kind::host_error,
      [](const Pair& p) {
        p.machine.work(p.first, {"bad", {}, {}, 0, [] { throw std::runtime_error("why"); }});
      },
      "rank 0 stream first bad: why");
}

/// Stream `first` writes data, then the values; `second` waits for `wanted` and reads the data.
void expect_values(Kind kind, std::uint32_t initial, const std::vector<std::uint32_t>& before,
                   const std::vector<std::uint32_t>& after, std::uint32_t wanted,
                   Compare compare = Compare::greater_equal) {
  expect_pair(kind, [&](const Pair& p) {
    std::byte* counter = p.data + 32;
    p.machine.host_work({"initial", {}, {{p.data, 64}}, 0, [=] {
                           *reinterpret_cast<std::uint32_t*>(counter) = initial;
                         }});
    for (const std::uint32_t value : before) p.machine.write_value(p.first, counter, value);
    p.machine.work(p.first, writing(p.data));
    for (const std::uint32_t value : after) p.machine.write_value(p.first, counter, value);
    p.machine.wait_value(p.second, counter, wanted, compare);
    p.machine.work(p.second, reading(p.data));
  });
}

TEST(Machine, AValueWaitKnowsOnlyTheEarliestWriteThatSatisfiesIt) {
  expect_values(Kind::ok, 0, {1}, {2, 3}, 2);
  expect_values(Kind::race, 0, {1, 2}, {3}, 2);
  expect_values(Kind::race, 5, {}, {6}, 5);
}

TEST(Machine, ValueComparisonIsCyclicOrEqual) {
  EXPECT_TRUE(satisfies(0, Compare::greater_equal, 0xfffffffe));
  EXPECT_FALSE(satisfies(0xfffffffe, Compare::greater_equal, 0));
  expect_values(Kind::ok, 0xfffffffe, {0xffffffff}, {0, 1}, 0);
  expect_values(Kind::deadlock, 0, {1, 2}, {3}, 7, Compare::equal);
}

TEST(Machine, AValueThatWasOverwrittenBeforeDoesNotEndAWait) {
  expect_pair(Kind::ok, [](const Pair& p) {
    p.machine.host_work(
        {"zero", {}, {{p.data, 64}}, 0, [&] { std::fill_n(p.data, 64, std::byte{}); }});
    p.machine.write_value(p.first, p.data + 32, 1);
    p.machine.write_value(p.first, p.data + 32, 0);
    p.machine.synchronise(p.first);
    p.machine.work(p.first, writing(p.data));
    p.machine.write_value(p.first, p.data + 32, 1);
    p.machine.wait_value(p.second, p.data + 32, 1, Compare::equal);
    p.machine.work(p.second, reading(p.data));
  });
}

TEST(Machine, ABarrierOrdersHosts) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    for (const bool with_barrier : {true, false}) {
      Machine machine({seed});
      std::byte* data = nullptr;
      const Verdict verdict = machine.run(3, [&](std::int32_t rank) {
        if (rank == 0) data = machine.allocate(4, "data");
        machine.barrier();
        if (rank == 0) machine.host_work(writing(data));
        if (with_barrier) machine.barrier();
        if (rank == 2) machine.host_work(writing(data));
      });
      EXPECT_EQ(verdict.kind, with_barrier ? Kind::ok : Kind::race) << verdict.message;
    }
  }
}

/// Ranks exchange in a ring: each sends to the right and receives from the left, in one operation.
Verdict ring(std::uint64_t seed, bool grouped, const std::string& key_of_1) {
  Machine machine({seed});
  std::array<std::byte*, 3> data{};
  return machine.run(3, [&](std::int32_t rank) {
    std::byte*& mine = data[static_cast<std::size_t>(rank)];
    mine = machine.allocate(8, "data");
    machine.host_work(writing(mine));
    machine.barrier();
    const StreamId stream = machine.create_stream("stream");
    const std::int32_t left = (rank + 2) % 3;
    const std::string key = rank == 1 ? key_of_1 : "4 x int8";
    std::byte* source = data[static_cast<std::size_t>(left)];
    const Meeting send{"send " + std::to_string(rank), 2, 0, key, reading(mine)};
    const Meeting receive{
        "send " + std::to_string(left), 2, 1, key, {"receive", {}, {{mine + 4, 4}}, 10, [=] {
                                                      std::copy_n(source, 4, mine + 4);
                                                    }}};
    if (grouped) {
      machine.rendezvous(stream, "exchange", {send, receive});
    } else {
      machine.rendezvous(stream, "send", {send});
      machine.rendezvous(stream, "receive", {receive});
    }
    machine.work(stream, reading(mine + 4));
  });
}

TEST(Machine, ARendezvousJoinsItsParties) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    EXPECT_TRUE(ring(seed, true, "4 x int8").ok());
    const Verdict apart = ring(seed, false, "4 x int8");
    EXPECT_EQ(apart.kind, Kind::deadlock);
    EXPECT_THAT(apart.message, HasSubstr("send 0: 1 of 2 parties arrived"));
    const Verdict other = ring(seed, true, "8 x int8");
    EXPECT_EQ(other.kind, Kind::mismatch);
    EXPECT_THAT(other.message, HasSubstr("\"8 x int8\""));
  }
}

TEST(Machine, ADeadlockSaysWhoWaitsForWhatAndWhoWouldWriteIt) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Machine machine({seed});
    const Verdict verdict = machine.run(1, [&](std::int32_t) {
      auto* counters = machine.allocate(8, "slab");
      machine.name_address(counters, "flag[0]");
      machine.name_address(counters + 4, "flag[1]");
      machine.host_work(
          {"zero", {}, {{counters, 8}}, 0, [=] { std::fill_n(counters, 8, std::byte{}); }});
      const StreamId a = machine.create_stream("a"), b = machine.create_stream("b");
      machine.set_label("op 7");
      machine.wait_value(a, counters, 3);
      machine.write_value(a, counters + 4, 1);
      machine.wait_value(b, counters + 4, 1);
      machine.synchronise(b);
    });
    EXPECT_EQ(verdict.kind, Kind::deadlock);
    EXPECT_THAT(
        verdict.message,
        AllOf(HasSubstr("rank 0 stream a wait rank 0 flag[0] >= 3 (op 7): rank 0 flag[0] wanted >= "
                        "3, there 0, to be written by nobody; 1 behind it"),
              HasSubstr("there 0, to be written by rank 0 stream a write rank 0 flag[1] = 1 (op "
                        "7), 1 before it; 0 behind it"),
              HasSubstr("rank 0 host (op 7): in synchronise stream b")));
  }
}

TEST(Machine, VirtualTimeFollowsStreamsAndDependencies) {
  expect_pair(Kind::ok, [](const Pair& p) {
    p.machine.advance_host(5);
    const OpId produce = p.machine.work(p.first, writing(p.data, 100));
    p.machine.record(p.first, p.event);
    const OpId other = p.machine.work(p.second, writing(p.data + 8, 30));
    p.machine.wait(p.second, p.event);
    const OpId consume = p.machine.work(p.second, reading(p.data, 7));
    p.machine.synchronise_device(0);
    EXPECT_EQ(p.machine.times(produce).start_ns, 5);
    EXPECT_EQ(p.machine.times(produce).end_ns, 105);
    EXPECT_EQ(p.machine.times(other).end_ns, 35);
    EXPECT_EQ(p.machine.times(consume).start_ns, 105);
    EXPECT_EQ(p.machine.times(consume).end_ns, 112);
  });
}

TEST(Machine, AHardwareQueueHoldsUpItsOtherStreams) {
  for (const std::size_t queues : {0, 1, 2}) {
    Machine machine({3, queues});
    const Verdict verdict = machine.run(1, [&](std::int32_t) {
      auto* counter = machine.allocate(4, "counter");
      machine.host_work(
          {"zero", {}, {{counter, 4}}, 0, [=] { std::fill_n(counter, 4, std::byte{}); }});
      const StreamId a = machine.create_stream("a"), b = machine.create_stream("b");
      machine.wait_value(a, counter, 1);
      machine.write_value(b, counter, 1);
    });
    EXPECT_EQ(verdict.kind, queues == 1 ? Kind::deadlock : Kind::ok);
    const std::string reason = queues == 1 ? "in its hardware queue" : "";
    EXPECT_THAT(verdict.message, HasSubstr(reason));
  }
}

TEST(Machine, ForgetsWhatAllClocksHavePassed) {
  Machine machine({1});
  const Verdict verdict = machine.run(2, [&](std::int32_t) {
    std::byte* data = machine.allocate(std::size_t{4} * 5000, "data");
    const StreamId stream = machine.create_stream("stream");
    for (int i = 0; i < 5000; ++i) {
      machine.work(stream, writing(data + std::ptrdiff_t{4} * i));
      if (i % 10 == 0) machine.synchronise(stream);
      if (i % 10 == 0) machine.barrier();
    }
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
  EXPECT_LT(machine.remembered(), 1000U);
}

TEST(Machine, CallsElsewhereAreRefused) {
  EXPECT_THROW(Machine::current(), std::logic_error);
  EXPECT_THROW(Machine::current_rank(), std::logic_error);
}

std::vector<std::string> trace_of(std::uint64_t seed) {
  Machine machine({seed});
  const Verdict verdict = machine.run(4, [&](std::int32_t) {
    std::byte* data = machine.allocate(64, "data");
    const StreamId a = machine.create_stream("a"), b = machine.create_stream("b");
    for (int i = 0; i < 10; ++i) {
      machine.work(a, writing(data, 3));
      machine.work(b, writing(data + 8, 4));
    }
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
  std::vector<std::string> lines;
  for (const TraceEntry& entry : machine.trace()) {
    lines.push_back(std::to_string(entry.op) + " " + std::to_string(entry.rank) + entry.stream +
                    entry.name + std::to_string(entry.times.end_ns));
  }
  return lines;
}

TEST(Machine, ASeedReplaysExactly) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::vector<std::string> trace = trace_of(seed);
    EXPECT_EQ(trace.size(), 80U);
    EXPECT_EQ(trace, trace_of(seed));
    EXPECT_NE(trace, trace_of(seed + 1));
  }
}

TEST(Machine, StreamsOfAQueueTakeTurnsWithoutBeingOrdered) {
  const auto two_streams = [](bool same_queue) {
    return [same_queue](const Pair& p) {
      const std::size_t queue = p.machine.create_queue();
      const StreamId front = p.machine.create_stream_in(queue, "front");
      const StreamId back =
          p.machine.create_stream_in(same_queue ? queue : p.machine.create_queue(), "back");
      p.machine.host_work(
          {"zero", {}, {{p.data, 64}}, 0, [&] { *reinterpret_cast<std::uint32_t*>(p.data) = 0; }});
      p.machine.wait_value(front, p.data, 1);
      p.machine.write_value(back, p.data, 1);
    };
  };
  expect_pair(Kind::deadlock, two_streams(true), "in its hardware queue");
  expect_pair(Kind::ok, two_streams(false));
  expect_pair(Kind::race, [](const Pair& p) {
    const std::size_t queue = p.machine.create_queue();
    p.machine.work(p.machine.create_stream_in(queue, "front"), writing(p.data));
    p.machine.work(p.machine.create_stream_in(queue, "back"), writing(p.data));
  });
}

TEST(Machine, KeepsStateOfTheRunForFakeLibraries) {
  struct Counter {
    int calls = 0;
  };
  for (int run = 0; run < 2; ++run) {
    Machine machine({});
    machine.run(3, [&](std::int32_t) { ++Machine::current().kept<Counter>().calls; });
    EXPECT_EQ(machine.kept<Counter>().calls, 3);
  }
}

TEST(Machine, AFakeLibraryEndsTheRunWithItsFinding) {
  expect_pair(
      Kind::mismatch,
      [](const Pair& p) {
        EXPECT_THROW(p.machine.end(Finding(Kind::mismatch, "why")), Stopped);
        EXPECT_THROW(p.machine.create_event("more"), Stopped);
      },
      "rank 0 host: why");
}

TEST(Machine, TellsOperationsAndTimes) {
  expect_pair(Kind::ok, [](const Pair& p) {
    p.machine.advance_host(50);
    EXPECT_EQ(p.machine.host_now_ns(), 50);
    const OpId op = p.machine.work(p.first, writing(p.data, 10));
    p.machine.synchronise(p.first);
    EXPECT_TRUE(p.machine.operation(op).done);
    EXPECT_EQ(p.machine.operation(op).issue_ns, 50);
    EXPECT_EQ(p.machine.device_of(p.first), 0);
    EXPECT_EQ(p.machine.host_now_ns(), 60);
  });
}

TEST(SimulatedMemory, RangesOverlapIfTheyShareAByte) {
  const std::array<std::byte, 8> bytes{};
  const auto range = [&](std::size_t begin, std::size_t length) {
    return Range{bytes.data() + begin, length};
  };
  EXPECT_TRUE(overlap(range(0, 4), range(3, 2)));
  EXPECT_TRUE(overlap(range(3, 2), range(0, 4)));
  EXPECT_FALSE(overlap(range(0, 4), range(4, 4)));
  EXPECT_FALSE(overlap(range(0, 4), range(2, 0)));
}

}  // namespace
}  // namespace commfuse::fake

// SPDX-License-Identifier: Apache-2.0
// The fake NCCL: what its operations compute and order. What it refuses is in
// nccl_refusals_test.cpp, and bugs in the use of it in nccl_bug_table_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/fakecuda/launch_log.h"
#include "tests/fakecuda/nccl_member.h"
#include "tests/fakecuda/nccl_world.h"

namespace commfuse::fake {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Kind = Verdict::Kind;

TEST(FakeNccl, AllGatherAndAllToAll) {
  expect_run(3, Kind::ok, [](const Member& m) {
    const auto mine = static_cast<float>(m.rank);
    std::byte* target = m.buffer({}, 6);
    ncclAllGather(m.buffer({mine, mine + 10}), target, 2, ncclFloat32, m.comm, m.handle());
    EXPECT_THAT(m.read(target, 6), ElementsAre(0, 10, 1, 11, 2, 12));
    std::byte* exchanged = m.buffer({}, 3);
    ncclAlltoAll(m.buffer({mine, mine + 10, mine + 20}), exchanged, 1, ncclFloat32, m.comm,
                 m.handle());
    const float first = 10 * mine;
    EXPECT_THAT(m.read(exchanged, 3), ElementsAre(first, first + 1, first + 2));
  });
}

TEST(FakeNccl, SumsInPlaceAndOutOfPlace) {
  expect_run(3, Kind::ok, [](const Member& m) {
    const auto mine = static_cast<float>(m.rank + 1);
    std::byte* all = m.buffer({mine, 2 * mine});
    ncclAllReduce(all, all, 2, ncclFloat32, ncclSum, m.comm, m.handle());
    EXPECT_THAT(m.read(all, 2), ElementsAre(6, 12));
    std::byte* blocks = m.buffer({mine, 2 * mine, 3 * mine});
    std::byte* own = blocks + static_cast<std::size_t>(m.rank) * sizeof(float);
    ncclReduceScatter(blocks, own, 1, ncclFloat32, ncclSum, m.comm, m.handle());
    EXPECT_THAT(m.read(own, 1), ElementsAre(6 * mine));
    std::byte* apart = m.buffer({}, 2);
    ncclAllReduce(m.buffer({mine, mine}), apart, 2, ncclFloat32, ncclSum, m.comm, m.handle());
    EXPECT_THAT(m.read(apart, 2), ElementsAre(6, 6));
  });
}

// bf16 has 8 bits: 256 + 1 + 1 rounded at every step stays 256, rounded once it is 258.
TEST(FakeNccl, SumsOfShortFormatsAreRoundedOnce) {
  for (const NumberFormat format : {NumberFormat::bf16, NumberFormat::f16}) {
    const bool bf16 = format == NumberFormat::bf16;
    const float large = bf16 ? 256 : 2048;
    expect_run(3, Kind::ok, [&](const Member& m) {
      std::byte* data = m.buffer({m.rank == 0 ? large : 1}, 1, format);
      ncclAllReduce(data, data, 1, bf16 ? ncclBfloat16 : ncclFloat16, ncclSum, m.comm, m.handle());
      EXPECT_THAT(m.read(data, 1, format), ElementsAre(large + 2));
    });
  }
}

TEST(FakeNccl, GroupsProgressTogetherAndMatchInOrder) {
  expect_run(2, Kind::ok, [](const Member& m) {
    const auto mine = static_cast<float>(m.rank);
    std::byte* slots = m.buffer({}, 2);
    ncclGroupStart();
    ncclGroupStart();  // nested
    ncclRecv(slots, 1, ncclFloat32, 1 - m.rank, m.comm, m.handle());
    ncclSend(m.buffer({mine}), 1, ncclFloat32, 1 - m.rank, m.comm, m.handle());
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    ncclSend(m.buffer({mine + 10}), 1, ncclFloat32, 1 - m.rank, m.comm, m.handle());
    ncclRecv(slots + 4, 1, ncclFloat32, 1 - m.rank, m.comm, m.handle());
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_THAT(m.read(slots, 2), ElementsAre(1 - mine, 11 - mine));
  });
}

/// Two streams on one rank, each with an operation of its own.
void expect_two_streams(Kind kind, bool two_communicators) {
  expect_run(2, kind, [&](const Member& m) {
    ncclComm_t second = m.comm;
    if (two_communicators) ncclCommSplit(m.comm, 0, m.rank, &second, nullptr);
    const StreamId other = m.machine.create_stream("other");
    std::byte* data = m.buffer({1});
    std::byte* more = m.buffer({2});
    m.machine.work(m.stream, {"writer", {}, {{data, 4}}, 0, {}});
    ncclAllReduce(more, more, 1, ncclFloat32, ncclSum, m.comm, m.handle());
    std::byte* last = m.buffer({2});
    ncclAllReduce(last, last, 1, ncclFloat32, ncclSum, second, handle_of(other));
    m.machine.work(other, {"reader", {{data, 4}}, {}, 0, {}});
  });
}

// A communicator waits for its own operations, whatever streams they are given: that orders these.
TEST(FakeNccl, OneCommunicatorOrdersItsStreamsAndTwoDoNot) {
  expect_two_streams(Kind::ok, false);
  expect_two_streams(Kind::race, true);
}

TEST(FakeNccl, AGroupJoinsItsStreams) {
  expect_run(2, Kind::ok, [](const Member& m) {
    const StreamId other = m.machine.create_stream("other");
    std::byte* data = m.buffer({1});
    std::byte* target = m.buffer({}, 1);
    m.machine.work(m.stream, {"writer", {}, {{data, 4}}, 0, {}});
    ncclGroupStart();
    ncclSend(m.buffer({2}), 1, ncclFloat32, 1 - m.rank, m.comm, m.handle());
    ncclRecv(target, 1, ncclFloat32, 1 - m.rank, m.comm, handle_of(other));
    ncclGroupEnd();
    m.machine.work(other, {"reader", {{data, 4}}, {}, 0, {}});
    m.machine.work(m.stream, {"reader", {{target, 4}}, {}, 0, {}});
  });
}

TEST(FakeNccl, SplitOrdersByKeyAndKeepsSettings) {
  expect_run(4, Kind::ok, [](const Member& m) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.maxCTAs = 8;
    config.splitShare = 0;
    config.commName = "half";
    ncclComm_t half = nullptr;
    ASSERT_EQ(ncclCommSplit(m.comm, m.rank % 2, -m.rank, &half, &config), ncclSuccess);
    int rank = -1;
    int count = 0;
    ncclCommUserRank(half, &rank);
    ncclCommCount(half, &count);
    EXPECT_EQ(count, 2);
    EXPECT_EQ(rank, m.rank < 2 ? 1 : 0);
    EXPECT_EQ(half->settings.max_ctas, 8);
    EXPECT_THAT(half->clique->name, HasSubstr("half"));
    std::byte* data = m.buffer({static_cast<float>(m.rank)});
    ncclAllReduce(data, data, 1, ncclFloat32, ncclSum, half, m.handle());
    EXPECT_THAT(m.read(data, 1), ElementsAre(m.rank % 2 == 0 ? 2 : 4));
    ncclComm_t none = half;
    const int color = m.rank == 0 ? NCCL_SPLIT_NOCOLOR : 0;
    ASSERT_EQ(ncclCommSplit(m.comm, color, 0, &none, nullptr), ncclSuccess);
    EXPECT_EQ(none == nullptr, m.rank == 0);
  });
}

TEST(FakeNccl, SettingsAreTheParentsOnlyWithoutAConfiguration) {
  expect_run(1, Kind::ok, [](const Member& m) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.maxCTAs = 8;
    std::array<ncclComm_t, 3> comms{};
    ncclCommSplit(m.comm, 0, 0, &comms[0], &config);
    ncclCommSplit(comms[0], 0, 0, &comms[1], nullptr);
    EXPECT_EQ(comms[1]->settings.max_ctas, 8);
    config = NCCL_CONFIG_INITIALIZER;
    config.splitShare = 1;
    ncclCommSplit(comms[0], 0, 0, &comms[2], &config);
    EXPECT_EQ(comms[2]->settings.max_ctas, NCCL_CONFIG_UNDEF_INT);
    EXPECT_EQ(comms[2]->settings.split_share, 1);
    config.splitShare = 2;
    EXPECT_EQ(ncclCommSplit(m.comm, 0, 0, &comms[2], &config), ncclInvalidArgument);
  });
}

TEST(FakeNccl, OneRankCopiesAndCollectivesInPlaceAreNothing) {
  std::vector<LaunchNote> launches;
  const LaunchLog log([&](const LaunchNote& launch) { launches.push_back(launch); });
  const auto body = [](const Member& m) {
    std::byte* data = m.buffer({1});
    std::byte* target = m.buffer({}, 1);
    ncclAllReduce(data, data, 1, ncclFloat32, ncclSum, m.comm, m.handle());
    ncclAllGather(data, target, 1, ncclFloat32, m.comm, m.handle());
    EXPECT_THAT(m.read(target, 1), ElementsAre(1));
  };
  expect_run(1, Kind::ok, body, "", 1);
  ASSERT_EQ(launches.size(), 1U);
  EXPECT_EQ(launches[0].kind, LaunchKind::copy_within_device);
  EXPECT_EQ(launches[0].bytes, 4U);
  EXPECT_FALSE(launches[0].by_driver);
}

TEST(FakeNccl, RegistersMemoryOfItsOwn) {
  expect_run(2, Kind::ok, [](const Member& m) {
    void* memory = nullptr;
    ASSERT_EQ(ncclMemAlloc(&memory, 64), ncclSuccess);
    void* handle = nullptr;
    ASSERT_EQ(ncclCommRegister(m.comm, memory, 64, &handle), ncclSuccess);
    EXPECT_EQ(ncclCommDeregister(m.comm, handle), ncclSuccess);
    EXPECT_EQ(ncclCommDeregister(m.comm, memory), ncclInvalidArgument);  // no handle
    ASSERT_EQ(ncclMemFree(memory), ncclSuccess);

    ASSERT_EQ(ncclMemAlloc(&memory, 16384), ncclSuccess);
    const auto aligned = reinterpret_cast<std::uintptr_t>(memory);
    ncclWindow_t window = nullptr;
    EXPECT_EQ(ncclCommWindowRegister(m.comm, reinterpret_cast<void*>(aligned + 256), 4096, &window,
                                     NCCL_WIN_COLL_SYMMETRIC),
              ncclInvalidArgument);
    ASSERT_EQ(ncclCommWindowRegister(m.comm, reinterpret_cast<void*>(aligned), 4096, &window,
                                     NCCL_WIN_COLL_SYMMETRIC),
              ncclSuccess);
    EXPECT_EQ(ncclCommWindowDeregister(m.comm, window), ncclSuccess);
    EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
  });
}

TEST(FakeNccl, ReplaysExactly) {
  const auto trace = [](std::uint64_t seed) {
    Machine machine({seed});
    ncclUniqueId id{};
    machine.run(3, [&](std::int32_t rank) {
      if (rank == 0) ncclGetUniqueId(&id);
      machine.barrier();
      ncclComm_t comm = nullptr;
      ncclCommInitRank(&comm, 3, id, rank);
      const Member m{rank, 3, comm, machine.create_stream("stream"), machine};
      std::byte* data = m.buffer({1, 2});
      ncclAllReduce(data, data, 2, ncclFloat32, ncclSum, comm, m.handle());
    });
    std::vector<std::string> lines;
    for (const TraceEntry& entry : machine.trace()) {
      lines.push_back(std::to_string(entry.rank) + entry.stream + entry.name +
                      std::to_string(entry.times.end_ns));
    }
    return lines;
  };
  EXPECT_EQ(trace(3), trace(3));
  EXPECT_NE(trace(3), trace(4));
}

}  // namespace
}  // namespace commfuse::fake

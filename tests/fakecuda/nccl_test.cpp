// SPDX-License-Identifier: Apache-2.0
// The fake NCCL: what its operations compute, order and refuse. Bugs in its use are in
// nccl_bug_table_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/fakecuda/handles.h"
#include "tests/fakecuda/machine.h"
#include "tests/fakecuda/nccl_world.h"
#include "tests/fakecuda/number_format.h"

namespace commfuse::fake {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Kind = Verdict::Kind;

constexpr std::uint64_t kSeeds = 20;

/// A rank with a communicator of all ranks, a stream and memory.
struct Member {
  std::int32_t rank;
  std::int32_t ranks;
  ncclComm_t comm;
  StreamId stream;
  Machine& machine;

  [[nodiscard]] cudaStream_t handle() const { return handle_of(stream); }

  /// A buffer with values; of poison where there are none.
  [[nodiscard]] std::byte* buffer(const std::vector<float>& values, std::size_t elements = 0,
                                  NumberFormat format = NumberFormat::f32) const {
    const std::size_t bytes = std::max(values.size(), elements) * bytes_of(format);
    std::byte* data = machine.allocate(bytes, "buffer");
    if (values.empty()) return data;
    machine.host_work({"fill", {}, {{data, values.size() * bytes_of(format)}}, 0, [&] {
                         for (std::size_t i = 0; i < values.size(); ++i) {
                           store(format, data, i, values[i]);
                         }
                       }});
    return data;
  }

  /// The values once the stream has come so far.
  [[nodiscard]] std::vector<float> read(const std::byte* data, std::size_t elements,
                                        NumberFormat format = NumberFormat::f32) const {
    machine.synchronise(stream);
    std::vector<float> values;
    machine.host_work({"read", {{data, elements * bytes_of(format)}}, {}, 0, [&] {
                         for (std::size_t i = 0; i < elements; ++i) {
                           values.push_back(load(format, data, i));
                         }
                       }});
    return values;
  }
};

/// Every seed ends the same way; `part` is in the message.
void expect_run(std::int32_t ranks, Kind kind, const std::function<void(const Member&)>& body,
                const std::string& part = "", std::uint64_t seeds = kSeeds) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    Machine machine({seed});
    ncclUniqueId id{};
    std::int32_t members = 0;
    const Verdict verdict = machine.run(ranks, [&](std::int32_t rank) {
      if (rank == 0) ncclGetUniqueId(&id);
      machine.barrier();
      ncclComm_t comm = nullptr;
      if (ncclCommInitRank(&comm, ranks, id, rank) != ncclSuccess) return;  // the run has ended
      ++members;
      body({rank, ranks, comm, machine.create_stream("stream"), machine});
    });
    EXPECT_EQ(verdict.kind, kind) << verdict.message;
    EXPECT_THAT(verdict.message, HasSubstr(part));
    EXPECT_TRUE(!verdict.ok() || members == ranks);
  }
}

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

TEST(FakeNccl, SendsToItselfNeedAReceiveAndAnotherBuffer) {
  expect_run(1, Kind::ok, [](const Member& m) {
    std::byte* source = m.buffer({7});
    std::byte* target = m.buffer({}, 1);
    EXPECT_EQ(ncclSend(source, 1, ncclFloat32, 0, m.comm, m.handle()), ncclInvalidUsage);
    EXPECT_THAT(ncclGetLastError(m.comm), HasSubstr("without a receive"));
    ncclGroupStart();
    ncclSend(source, 1, ncclFloat32, 0, m.comm, m.handle());
    ncclRecv(target, 1, ncclFloat32, 0, m.comm, m.handle());
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_THAT(m.read(target, 1), ElementsAre(7));
  });
  expect_run(
      1, Kind::race,
      [](const Member& m) {
        std::byte* data = m.buffer({7, 8});
        ncclGroupStart();
        ncclSend(data, 1, ncclFloat32, 0, m.comm, m.handle());
        ncclRecv(data, 1, ncclFloat32, 0, m.comm, m.handle());
        EXPECT_EQ(ncclGroupEnd(), ncclUnhandledCudaError);
        EXPECT_EQ(ncclGroupStart(), ncclUnhandledCudaError);  // and from then on
      },
      "in-place");
}

TEST(FakeNccl, CallsOfAGroupUseDifferentBytes) {
  expect_run(
      2, Kind::race,
      [](const Member& m) {
        std::byte* data = m.buffer({1, 2, 3});
        ncclGroupStart();
        ncclSend(data, 2, ncclFloat32, 1 - m.rank, m.comm, m.handle());
        ncclRecv(data + 4, 2, ncclFloat32, 1 - m.rank, m.comm, m.handle());
        ncclGroupEnd();
      },
      "calls of one group use the same bytes");
}

TEST(FakeNccl, DifferentOperationsDoNotMatch) {
  expect_run(
      2, Kind::mismatch,
      [](const Member& m) {
        std::byte* data = m.buffer({1, 2, 3, 4});
        if (m.rank == 0) {
          ncclAllGather(data, m.buffer({}, 2), 1, ncclFloat32, m.comm, m.handle());
        } else {
          ncclAllReduce(data, data, 1, ncclFloat32, ncclSum, m.comm, m.handle());
        }
      },
      "ncclDevKernel_AllGather");
  expect_run(2, Kind::mismatch, [](const Member& m) {
    std::byte* data = m.buffer({1, 2, 3, 4});
    const ncclDataType_t type = m.rank == 0 ? ncclFloat32 : ncclInt32;
    if (m.rank == 0) ncclSend(data, 1, type, 1, m.comm, m.handle());
    if (m.rank == 1) ncclRecv(data, 1, type, 0, m.comm, m.handle());
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

TEST(FakeNccl, MakingACommunicatorWaitsForAllItsRanks) {
  expect_run(
      3, Kind::deadlock,
      [](const Member& m) {
        ncclComm_t half = nullptr;
        if (m.rank > 0) ncclCommSplit(m.comm, 0, 0, &half, nullptr);
      },
      "2 of 3 parties arrived");
}

TEST(FakeNccl, RefusesWhatNcclRefuses) {
  expect_run(1, Kind::ok, [](const Member& m) {
    std::byte* data = m.buffer({1});
    EXPECT_EQ(ncclSend(data, 1, ncclFloat32, 1, m.comm, m.handle()), ncclInvalidArgument);
    EXPECT_THAT(ncclGetLastError(m.comm), HasSubstr("peer 1 of 1 ranks"));
    EXPECT_EQ(ncclSend(nullptr, 1, ncclFloat32, 0, m.comm, m.handle()), ncclInvalidArgument);
    EXPECT_EQ(ncclSend(data, 1, ncclNumTypes, 0, m.comm, m.handle()), ncclInvalidArgument);
    EXPECT_EQ(ncclSend(data, 1, ncclFloat32, 0, nullptr, m.handle()), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
    ncclGroupStart();
    EXPECT_EQ(ncclRecv(data, 1, ncclFloat32, -1, m.comm, m.handle()), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    ncclConfig_t config{};
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommSplit(m.comm, 0, 0, &comm, &config), ncclInvalidArgument);
    config = NCCL_CONFIG_INITIALIZER;
    config.maxCTAs = 0;
    EXPECT_EQ(ncclCommSplit(m.comm, 0, 0, &comm, &config), ncclInvalidArgument);
    ncclResult_t error = ncclInternalError;
    EXPECT_EQ(ncclCommGetAsyncError(m.comm, &error), ncclSuccess);
    EXPECT_EQ(error, ncclSuccess);
    EXPECT_STREQ(ncclGetErrorString(ncclSuccess), "no error");
  });
}

TEST(FakeNccl, UseAfterDestroyAndOfTheDefaultStreamEndTheRun) {
  expect_run(
      1, Kind::use_after_free,
      [](const Member& m) {
        EXPECT_EQ(ncclCommFinalize(m.comm), ncclSuccess);
        EXPECT_EQ(ncclCommDestroy(m.comm), ncclSuccess);
        ncclSend(m.buffer({1}), 1, ncclFloat32, 0, m.comm, m.handle());
      },
      "was destroyed");
  expect_run(
      1, Kind::host_error,
      [](const Member& m) { ncclSend(m.buffer({1}), 1, ncclFloat32, 0, m.comm, nullptr); },
      "the default stream was used");
  expect_run(
      1, Kind::host_error,
      [](const Member& m) {
        std::byte* data = m.buffer({1});
        ncclAllReduce(data, data, 1, ncclFloat32, ncclMax, m.comm, m.handle());
      },
      "no reduction but the sum");
}

TEST(FakeNccl, RegistersMemoryOfItsOwn) {
  expect_run(2, Kind::ok, [](const Member& m) {
    void* memory = nullptr;
    ASSERT_EQ(ncclMemAlloc(&memory, 64), ncclSuccess);
    void* handle = nullptr;
    ASSERT_EQ(ncclCommRegister(m.comm, memory, 64, &handle), ncclSuccess);
    EXPECT_EQ(ncclCommDeregister(m.comm, handle), ncclSuccess);
    EXPECT_EQ(ncclCommDeregister(m.comm, handle), ncclInvalidArgument);
    ASSERT_EQ(ncclMemFree(memory), ncclSuccess);

    ASSERT_EQ(ncclMemAlloc(&memory, 16384), ncclSuccess);
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    const std::uintptr_t aligned = (address + 4095) / 4096 * 4096;
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

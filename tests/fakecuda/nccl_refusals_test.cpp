// SPDX-License-Identifier: Apache-2.0
// The fake NCCL: what it returns errors for, and what ends the run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <array>

#include "tests/fakecuda/nccl_member.h"

namespace commfuse::fake {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Kind = Verdict::Kind;

TEST(FakeNcclRefusals, SendsToItselfNeedAReceiveAndAnotherBuffer) {
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

TEST(FakeNcclRefusals, CallsOfAGroupUseDifferentBytes) {
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

TEST(FakeNcclRefusals, DifferentOperationsDoNotMatch) {
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

TEST(FakeNcclRefusals, MakingACommunicatorWaitsForAllItsRanks) {
  expect_run(
      3, Kind::deadlock,
      [](const Member& m) {
        ncclComm_t half = nullptr;
        if (m.rank > 0) ncclCommSplit(m.comm, 0, 0, &half, nullptr);
      },
      "2 of 3 parties arrived");
}

TEST(FakeNcclRefusals, RefusesWhatNcclRefuses) {
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

TEST(FakeNcclRefusals, UseAfterDestroyAndOfTheDefaultStreamEndTheRun) {
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

TEST(FakeNcclRefusals, WhatTheFakeDoesNotHaveEndsTheRun) {
  expect_run(
      1, Kind::host_error,
      [](const Member& m) {
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        ncclComm_t comm = nullptr;
        ncclCommSplit(m.comm, 0, 0, &comm, &config);
      },
      "blocking communicators only");
  expect_run(
      1, Kind::host_error,
      [](const Member& m) {
        ncclGroupStart();
        ncclComm_t comm = nullptr;
        ncclCommSplit(m.comm, 0, 0, &comm, nullptr);
      },
      "within a group");
  expect_run(
      1, Kind::host_error,
      [](const Member& m) {
        std::byte* data = m.buffer({1});
        ncclAllReduce(data, data, 1, ncclInt32, ncclSum, m.comm, m.handle());
      },
      "does not add type");
}

TEST(FakeNcclRefusals, RanksAgreeOnTheirNumberAndUseAnIdOnce) {
  for (const bool again : {false, true}) {
    Machine machine({0});
    ncclUniqueId id{};
    const Verdict verdict = machine.run(2, [&](std::int32_t rank) {
      if (rank == 0) ncclGetUniqueId(&id);
      machine.barrier();
      ncclComm_t comm = nullptr;
      if (!again) {
        ncclCommInitRank(&comm, rank == 0 ? 2 : 3, id, rank);
      } else {
        ncclCommInitRank(&comm, 2, id, rank);
        ncclCommInitRank(&comm, 2, id, rank);
      }
    });
    EXPECT_EQ(verdict.kind, Kind::mismatch);
    EXPECT_THAT(verdict.message, HasSubstr(again ? "was used again" : "ranks; rank"));
  }
}

TEST(FakeNcclRefusals, ACommunicatorIsOfOneHostThread) {
  Machine machine({0});
  ncclUniqueId id{};
  std::array<ncclComm_t, 2> comms{};
  const Verdict verdict = machine.run(2, [&](std::int32_t rank) {
    if (rank == 0) ncclGetUniqueId(&id);
    machine.barrier();
    ncclCommInitRank(&comms.at(static_cast<std::size_t>(rank)), 2, id, rank);
    machine.barrier();
    int device = -1;
    EXPECT_EQ(ncclCommCuDevice(comms.at(static_cast<std::size_t>(rank)), &device), ncclSuccess);
    EXPECT_EQ(device, rank);
    machine.barrier();
    if (rank == 0) ncclCommCuDevice(comms[1], &device);
  });
  EXPECT_EQ(verdict.kind, Kind::host_error);
  EXPECT_THAT(verdict.message, HasSubstr("of rank 1 was used"));
}

TEST(FakeNcclRefusals, AnAbortWaitsForNothing) {
  expect_run(
      2, Kind::deadlock,
      [](const Member& m) {
        if (m.rank > 0) return;
        ncclSend(m.buffer({1}), 1, ncclFloat32, 1, m.comm, m.handle());
        EXPECT_EQ(ncclCommAbort(m.comm), ncclSuccess);
      },
      "from 0 to 1 message 0: 1 of 2 parties arrived");
}

}  // namespace
}  // namespace commfuse::fake

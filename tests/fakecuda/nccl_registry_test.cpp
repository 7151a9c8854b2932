// SPDX-License-Identifier: Apache-2.0
// The fake NCCL: what registered memory changes, and its misuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

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

constexpr std::size_t kBytes = 64;

/// Null once the run has ended, as on the other rank of a misuse.
std::byte* nccl_memory(std::size_t bytes = kBytes) {
  void* memory = nullptr;
  ncclMemAlloc(&memory, bytes);
  return static_cast<std::byte*>(memory);
}

ncclWindow_t window_of(const ncclComm_t comm, std::byte* memory, std::size_t bytes = kBytes) {
  ncclWindow_t window = nullptr;
  ncclCommWindowRegister(comm, memory, bytes, &window, NCCL_WIN_COLL_SYMMETRIC);
  return window;
}

ncclComm_t without_ctas(const Member& m) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  config.commName = "copies";
  ncclComm_t comm = nullptr;
  ncclCommSplit(m.comm, 0, m.rank, &comm, &config);
  return comm;
}

/// A value of every rank at its place in the first elements.
void fill_own(const Member& m, std::byte* memory) {
  std::byte* const own = memory + static_cast<std::size_t>(m.rank) * sizeof(float);
  m.machine.host_work({"fill", {}, {{own, sizeof(float)}}, 0, [&m, own] {
                         store(NumberFormat::f32, own, 0, static_cast<float>(m.rank + 1));
                       }});
}

void gather_in_place(const Member& m, ncclComm_t comm, std::byte* memory) {
  ncclAllGather(memory + static_cast<std::size_t>(m.rank) * sizeof(float), memory, 1, ncclFloat32,
                comm, m.handle());
}

/// What three ranks launch for an all-gather in windows, and for an all-to-all where copy engines
/// are to do it, else for a reduce-scatter and an all-reduce.
std::vector<LaunchNote> launches_in_windows(bool by_copy_engines) {
  std::vector<LaunchNote> launches;
  const LaunchLog log([&](const LaunchNote& launch) {
    if (Machine::current_rank() == 0) launches.push_back(launch);
  });
  expect_run(
      3, Kind::ok,
      [&](const Member& m) {
        const ncclComm_t comm = by_copy_engines ? without_ctas(m) : m.comm;
        std::byte* const memory = nccl_memory();
        const ncclWindow_t window = window_of(comm, memory);
        fill_own(m, memory);
        gather_in_place(m, comm, memory);
        EXPECT_THAT(m.read(memory, 3), ElementsAre(1, 2, 3));
        if (by_copy_engines) {
          ncclAlltoAll(memory, memory + 32, 1, ncclFloat32, comm, m.handle());
          const auto mine = static_cast<float>(m.rank + 1);
          EXPECT_THAT(m.read(memory + 32, 3), ElementsAre(mine, mine, mine));
        } else {
          ncclReduceScatter(memory, memory + 32, 1, ncclFloat32, ncclSum, comm, m.handle());
          EXPECT_THAT(m.read(memory + 32, 1), ElementsAre(3.0F * static_cast<float>(m.rank + 1)));
          ncclAllReduce(memory, memory + 48, 3, ncclFloat32, ncclSum, comm, m.handle());
          EXPECT_THAT(m.read(memory + 48, 3), ElementsAre(3, 6, 9));
        }
        EXPECT_EQ(ncclCommWindowDeregister(comm, window), ncclSuccess);
        EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
      },
      "", 1);
  return launches;
}

TEST(FakeNcclRegistry, WindowsRunKernelsOfTheirOwn) {
  const std::vector<LaunchNote> launches = launches_in_windows(false);
  ASSERT_EQ(launches.size(), 3U);
  EXPECT_EQ(launches[0].name, "ncclSymkDevKernel_AllGather_ST");
  EXPECT_EQ(launches[1].name, "ncclSymkDevKernel_ReduceScatter_LD");
  EXPECT_EQ(launches[2].name, "ncclSymkDevKernel_AllReduce_RSxLD_AGxST");
}

TEST(FakeNcclRegistry, WithoutCtasAGatherAndAnAllToAllAreACopyToEachPeer) {
  const std::vector<LaunchNote> launches = launches_in_windows(true);
  ASSERT_EQ(launches.size(), 2U + 3U);
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const bool within = i == 2;  // the own block of the all-to-all
    EXPECT_EQ(launches[i].kind, within ? LaunchKind::copy_within_device : LaunchKind::peer_copy);
    EXPECT_EQ(launches[i].bytes, sizeof(float));
    EXPECT_FALSE(launches[i].by_driver);
  }
}

TEST(FakeNcclRegistry, CopyEnginesAddNothing) {
  expect_run(
      2, Kind::host_error,
      [](const Member& m) {
        const ncclComm_t comm = without_ctas(m);
        std::byte* const data = m.buffer({1, 2});
        ncclReduceScatter(data, data, 1, ncclFloat32, ncclSum, comm, m.handle());
      },
      "copy engines cannot do");
  expect_run(
      2, Kind::host_error,
      [](const Member& m) {
        const ncclComm_t comm = without_ctas(m);
        ncclSend(m.buffer({1}), 1, ncclFloat32, 1 - m.rank, comm, m.handle());
      },
      "copy engines cannot do ncclDevKernel_SendRecv");
}

TEST(FakeNcclRegistry, SendsOfOtherMemoryThanTheRegisteredAreFound) {
  expect_run(
      2, Kind::host_error,
      [](const Member& m) {
        void* handle = nullptr;
        ncclCommRegister(m.comm, nccl_memory(), kBytes, &handle);
        ncclSend(m.buffer({1}), 1, ncclFloat32, 1 - m.rank, m.comm, m.handle());
      },
      "uses memory outside all that is registered");
}

TEST(FakeNcclRegistry, OtherMemoryThanTheRegisteredIsFound) {
  for (const bool window : {false, true}) {
    expect_run(
        2, Kind::host_error,
        [&](const Member& m) {
          std::byte* const memory = nccl_memory();
          void* handle = nullptr;
          if (window) {
            window_of(m.comm, memory);
          } else {
            ncclCommRegister(m.comm, memory, kBytes, &handle);
          }
          ncclAllGather(m.buffer({1}), memory, 1, ncclFloat32, m.comm, m.handle());
        },
        "uses memory outside all that is registered");
  }
}

TEST(FakeNcclRegistry, RanksReachTheSamePlaceOfTheSameWindow) {
  expect_run(
      2, Kind::mismatch,
      [](const Member& m) {
        std::byte* const memory = nccl_memory();
        window_of(m.comm, memory);
        std::byte* const data = memory + (m.rank == 0 ? 0 : 8);
        fill_own(m, data);
        gather_in_place(m, m.comm, data);
      },
      "window 0 + 8");
}

TEST(FakeNcclRegistry, WindowsOfOtherSizesDoNotMeet) {
  expect_run(
      2, Kind::mismatch,
      [](const Member& m) { window_of(m.comm, nccl_memory(), m.rank == 0 ? kBytes : kBytes / 2); },
      "window 0");
}

TEST(FakeNcclRegistry, MemoryIsGivenBackOnceAndBeforeItIsFreed) {
  for (const bool window : {false, true}) {
    expect_run(
        2, Kind::use_after_free,
        [&](const Member& m) {
          std::byte* const memory = nccl_memory();
          if (window) {
            const ncclWindow_t own = window_of(m.comm, memory);
            ncclCommWindowDeregister(m.comm, own);
            ncclCommWindowDeregister(m.comm, own);
          } else {
            void* handle = nullptr;
            ncclCommRegister(m.comm, memory, kBytes, &handle);
            ncclCommDeregister(m.comm, handle);
            ncclCommDeregister(m.comm, handle);
          }
        },
        "deregistered twice");
  }
  expect_run(
      2, Kind::use_after_free,
      [](const Member& m) {
        std::byte* const memory = nccl_memory();
        window_of(m.comm, memory);
        ncclMemFree(memory);
      },
      "freed while it is registered");
}

TEST(FakeNcclRegistry, ACommunicatorOutlivesItsWindows) {
  expect_run(
      2, Kind::use_after_free,
      [](const Member& m) {
        window_of(m.comm, nccl_memory());
        ncclCommDestroy(m.comm);
      },
      "destroyed while memory is registered");
}

TEST(FakeNcclRegistry, AnswersWhatNcclAnswers) {
  expect_run(1, Kind::ok, [](const Member& m) {
    std::byte* const memory = nccl_memory();
    void* handle = nullptr;
    EXPECT_EQ(ncclCommRegister(m.comm, memory, 0, &handle), ncclInvalidArgument);
    ASSERT_EQ(ncclCommRegister(m.comm, memory, kBytes, &handle), ncclSuccess);
    EXPECT_EQ(ncclCommWindowDeregister(m.comm, static_cast<ncclWindow_t>(handle)),
              ncclInvalidArgument);  // no window
    EXPECT_EQ(ncclCommDeregister(m.comm, handle), ncclSuccess);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.CTAPolicy = 7;
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommSplit(m.comm, 0, 0, &comm, &config), ncclInvalidArgument);
    EXPECT_THAT(ncclGetLastError(m.comm), HasSubstr("CTAPolicy is 7"));
    NcclWorld::current().refused_rank = 0;
    ncclWindow_t window = nullptr;
    EXPECT_EQ(ncclCommWindowRegister(m.comm, memory, kBytes, &window, NCCL_WIN_COLL_SYMMETRIC),
              ncclSystemError);
    EXPECT_EQ(window, nullptr);
  });
}

}  // namespace
}  // namespace commfuse::fake

// SPDX-License-Identifier: Apache-2.0
// Memory of other ranks: handles between processes, peers within one, and the order at the end.
#include <cstring>
#include <span>

#include "tests/fakecuda/cudart_run.h"

namespace commfuse::fake {
namespace {

using Kind = Verdict::Kind;

RunSetup two_processes() {
  RunSetup setup;
  setup.ranks = 2;
  setup.devices.count = 2;
  return setup;
}

cudaIpcMemHandle_t export_of(void* memory) {
  cudaIpcMemHandle_t handle{};
  check(cudaIpcGetMemHandle(&handle, memory));
  return handle;
}

/// Rank 0's handle, on both ranks.
cudaIpcMemHandle_t exchange(World& world, const cudaIpcMemHandle_t& handle) {
  const auto bytes = world.broadcast(std::as_bytes(std::span(&handle, 1)), 0);
  cudaIpcMemHandle_t result{};
  std::memcpy(&result, bytes.data(), sizeof result);
  return result;
}

enum class Step : std::uint8_t { none, sync, close, barrier_after_close };

/// Rank 1 writes to memory of rank 0, and both tidy up, leaving one step out.
void share(World& world, Step left_out) {
  std::byte* own = world.rank() == 0 ? zeroed(kSlabBytes) : nullptr;
  const cudaIpcMemHandle_t handle =
      exchange(world, own != nullptr ? export_of(own) : cudaIpcMemHandle_t{});
  void* opened = nullptr;
  if (world.rank() == 1) {
    check(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess));
    check(cudaMemsetAsync(opened, 1, kSlabBytes, new_stream()));
  }
  if (left_out != Step::sync) check(cudaDeviceSynchronize());
  world.barrier();
  if (world.rank() == 1 && left_out != Step::close) check(cudaIpcCloseMemHandle(opened));
  if (left_out != Step::barrier_after_close) world.barrier();
  if (world.rank() == 0) check(cudaFree(own));
}

TEST(CudartSharing, SyncBarrierCloseBarrierFree) {
  expect_ok(two_processes(), [](World& world) { share(world, Step::none); });
}

TEST(CudartSharing, EachStepThatIsLeftOutIsFound) {
  expect_runs(two_processes(), Kind::host_error, "closes memory on which rank 1 stream #0 memset",
              [](World& world) { share(world, Step::sync); });
  expect_runs(two_processes(), Kind::host_error, "frees memory that rank 1 still has open",
              [](World& world) { share(world, Step::close); });
  expect_runs(two_processes(), Kind::host_error, "frees memory that rank 1",
              [](World& world) { share(world, Step::barrier_after_close); });
}

TEST(CudartSharing, OwnHandlesCannotBeOpened) {
  RunSetup setup = two_processes();
  const auto open = [](World& world) {
    const cudaIpcMemHandle_t handle = exchange(world, export_of(zeroed(kSlabBytes)));
    void* opened = nullptr;
    return cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess);
  };
  setup.ranks = 1;
  expect_ok(setup, [&](World& world) { EXPECT_EQ(open(world), cudaErrorDeviceUninitialized); });
  setup = two_processes();
  setup.devices.one_process = true;
  expect_ok(setup, [&](World& world) { EXPECT_EQ(open(world), cudaErrorDeviceUninitialized); });
}

TEST(CudartSharing, OnlyBasesOfWholeBlocksOfTheirOwnerAreExported) {
  expect_misuse("not the base", [](World&) { export_of(zeroed(kSlabBytes) + 256); });
  expect_misuse("4096 bytes are no multiple of 2 MiB", [](World&) { export_of(zeroed(4096)); });
  expect_misuse("no live memory of cudaMalloc", [](World&) {
    int host = 0;
    export_of(&host);
  });
  static std::byte* foreign = nullptr;
  expect_runs(two_processes(), Kind::host_error, "this memory belongs to rank 0", [](World& world) {
    if (world.rank() == 0) foreign = zeroed(kSlabBytes);
    world.barrier();
    if (world.rank() == 1) export_of(foreign);
  });
}

TEST(CudartSharing, HandlesMustMeanSomething) {
  expect_misuse("what was given is no handle", [](World&) {
    void* opened = nullptr;
    cudaIpcOpenMemHandle(&opened, {}, cudaIpcMemLazyEnablePeerAccess);
  });
  expect_misuse("closes memory that this rank has not opened",
                [](World&) { cudaIpcCloseMemHandle(zeroed(kSlabBytes)); });
  expect_runs(two_processes(), Kind::host_error, "rank 0 has freed this memory", [](World& world) {
    std::byte* own = zeroed(kSlabBytes);
    const cudaIpcMemHandle_t handle = exchange(world, export_of(own));
    if (world.rank() == 0) check(cudaFree(own));
    world.barrier();
    void* opened = nullptr;
    if (world.rank() == 1) {
      cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess);
    }
  });
}

/// Rank 1 writes to memory of rank 0 by the address that rank 0 knows.
void reach(World& world, const std::function<void()>& before) {
  static std::byte* address = nullptr;
  if (world.rank() == 0) address = zeroed(kSlabBytes);
  world.barrier();
  if (world.rank() == 1) {
    before();
    check(cudaMemsetAsync(address, 1, 16, new_stream()));
  }
}

TEST(CudartSharing, WhatIsNotOpenCannotBeTouched) {
  expect_runs(two_processes(), Kind::host_error, "touches memory of rank 0 that is not open here",
              [](World& world) { reach(world, [] {}); });
}

TEST(CudartSharing, WhatWasClosedCannotBeTouched) {
  expect_runs(two_processes(), Kind::host_error, "touches memory of rank 0 that is not open here",
              [](World& world) {
                std::byte* own = zeroed(kSlabBytes);
                const cudaIpcMemHandle_t handle = exchange(world, export_of(own));
                if (world.rank() == 0) return world.barrier();
                void* opened = nullptr;
                check(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess));
                check(cudaIpcCloseMemHandle(opened));
                write_value(new_stream(), opened, 1);
                world.barrier();
              });
}

TEST(CudartSharing, PeersOfOneProcessNeedAccess) {
  RunSetup setup = two_processes();
  setup.devices.one_process = true;
  expect_runs(setup, Kind::host_error, "touches memory of device 0 without peer access",
              [](World& world) { reach(world, [] {}); });
  expect_ok(setup, [](World& world) {
    reach(world, [] {
      int can = 0;
      check(cudaDeviceCanAccessPeer(&can, 1, 0));
      EXPECT_EQ(can, 1);
      check(cudaDeviceEnablePeerAccess(0, 0));
      EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
      EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorInvalidDevice);
    });
  });
  setup.devices.peer_access = false;
  expect_ok(setup, [](World&) {
    int can = 1;
    check(cudaDeviceCanAccessPeer(&can, 1, 0));
    EXPECT_EQ(can, 0);
  });
}

}  // namespace
}  // namespace commfuse::fake

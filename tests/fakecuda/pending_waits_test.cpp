// SPDX-License-Identifier: Apache-2.0
// Nothing may synchronise a device while a wait for a value may be pending on it.
#include "tests/fakecuda/pending_waits.h"

#include "tests/fakecuda/cudart_run.h"
#include "tests/fakecuda/test_kernels.h"

namespace commfuse::fake {
namespace {

/// A stream with a wait that a second stream will end.
struct Blocked {
  cudaStream_t waiting = new_stream();
  cudaStream_t other = new_stream();
  int* memory = reinterpret_cast<int*>(zeroed(256));
  std::byte* flag = zeroed(4);

  void wait() const { wait_value(waiting, flag, 1); }
  void release() const { write_value(other, flag, 1); }
};

void expect_found(const std::string& call, const std::function<void(const Blocked&)>& body) {
  expect_misuse(call + " may synchronise the device while rank 0 stream #0 wait", [&](World&) {
    const Blocked blocked;
    blocked.wait();
    blocked.release();
    body(blocked);
  });
}

TEST(PendingWaits, AllocatingAndFreeingAreFound) {
  static void* memory = nullptr;
  expect_found("cudaMalloc", [](const Blocked&) { cudaMalloc(&memory, 4); });
  expect_found("cudaFree", [](const Blocked& blocked) { cudaFree(blocked.memory); });
  expect_found("cudaHostAlloc", [](const Blocked&) { cudaMallocHost(&memory, 4); });
  expect_found("creating a stream", [](const Blocked&) {
    cudaStream_t stream = nullptr;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  });
}

TEST(PendingWaits, TheFirstLaunchOfAKernelIsFound) {
  expect_found("loading the kernel test::fill at its first use",
               [](const Blocked& blocked) { launch_fill(blocked.memory, 4, 1, blocked.other); });
}

TEST(PendingWaits, ASecondLaunchIsNoFirstUse) {
  expect_ok([](World&) {
    const Blocked blocked;
    check(launch_fill(blocked.memory, 4, 1, blocked.waiting));
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, add_kernel()));
    blocked.wait();
    check(launch_fill(blocked.memory, 4, 1, blocked.waiting));
    check(launch_add(blocked.memory, blocked.memory, 4, blocked.waiting));
    blocked.release();
  });
}

TEST(PendingWaits, HavingSynchronisedIsEnough) {
  expect_ok([](World&) {
    const Blocked blocked;
    blocked.wait();
    blocked.release();
    check(cudaDeviceSynchronize());
    zeroed(4);
    blocked.wait();
    const cudaEvent_t after = new_event();
    check(cudaEventRecord(after, blocked.waiting));
    while (cudaEventQuery(after) == cudaErrorNotReady) continue;
    check(cudaFree(blocked.memory));
  });
}

TEST(PendingWaits, SynchronisingAnotherStreamIsNot) {
  expect_found("cudaMalloc", [](const Blocked& blocked) {
    check(cudaStreamSynchronize(blocked.other));
    zeroed(4);
  });
}

TEST(PendingWaits, OtherDevicesAreFree) {
  RunSetup setup;
  setup.devices.count = 2;
  setup.devices.one_process = true;
  expect_ok(setup, [](World&) {
    const Blocked blocked;
    blocked.wait();
    check(cudaSetDevice(1));
    zeroed(4);
    blocked.release();
  });
}

TEST(PendingWaits, RanksOfOneProcessShareTheDevice) {
  RunSetup setup;
  setup.ranks = 2;
  setup.devices.one_process = true;
  expect_runs(setup, Verdict::Kind::host_error, "rank 1 host: cudaMalloc", [](World& world) {
    if (world.rank() == 0) {
      const Blocked blocked;
      blocked.wait();
      blocked.release();
      world.barrier();
      check(cudaDeviceSynchronize());
    } else {
      world.barrier();
      zeroed(4);
    }
  });
  setup.devices.one_process = false;
  expect_ok(setup, [](World& world) {
    if (world.rank() == 0) {
      const Blocked blocked;
      blocked.wait();
      blocked.release();
      world.barrier();
    } else {
      world.barrier();
      zeroed(4);
    }
  });
}

TEST(PendingWaits, TheRuleCanBeOff) {
  RunSetup setup;
  setup.devices.find_implicit_synchronisation = false;
  expect_ok(setup, [](World&) {
    const Blocked blocked;
    blocked.wait();
    void* memory = nullptr;
    check(cudaMalloc(&memory, 4));
    blocked.release();
  });
}

}  // namespace
}  // namespace commfuse::fake

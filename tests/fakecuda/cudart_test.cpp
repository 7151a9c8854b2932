// SPDX-License-Identifier: Apache-2.0
// The fake runtime as a program sees it: devices, streams, events, copies, errors.
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tests/fakecuda/cudart_run.h"
#include "tests/fakecuda/launch_log.h"
#include "tests/fakecuda/test_kernels.h"

namespace commfuse::fake {
namespace {

constexpr int kInts = 64;
constexpr std::size_t kIntBytes = kInts * sizeof(int);

TEST(Cudart, WithoutARunThereIsNoDriver) {
  int count = 7;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  EXPECT_EQ(count, 7);
  EXPECT_STREQ(cudaGetErrorName(cudaErrorInsufficientDriver), "cudaErrorInsufficientDriver");
}

TEST(Cudart, DevicesAreAsConfigured) {
  RunSetup setup;
  setup.devices.count = 3;
  setup.devices.sm_count = 20;
  setup.devices.can_flush_remote_writes = false;
  expect_ok(setup, [](World&) {
    int value = 0;
    check(cudaGetDeviceCount(&value));
    EXPECT_EQ(value, 3);
    EXPECT_EQ(cudaSetDevice(3), cudaErrorInvalidDevice);
    check(cudaSetDevice(2));
    check(cudaGetDevice(&value));
    EXPECT_EQ(value, 2);
    check(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 2));
    EXPECT_EQ(value, 20);
    check(cudaDeviceGetAttribute(&value, cudaDevAttrCanFlushRemoteWrites, 2));
    EXPECT_EQ(value, 0);
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, 2));
    EXPECT_EQ(properties.multiProcessorCount, 20);
    std::array<char, 16> bus{};
    check(cudaDeviceGetPCIBusId(bus.data(), bus.size(), 2));
    EXPECT_STREQ(bus.data(), "0000:03:00.0");
    int highest = 0;
    check(cudaDeviceGetStreamPriorityRange(&value, &highest));
    EXPECT_LT(highest, value);
    check(cudaDriverGetVersion(&value));
    EXPECT_EQ(value, 13000);
    check(cudaRuntimeGetVersion(&value));
    EXPECT_EQ(value, CUDART_VERSION);
  });
}

TEST(Cudart, ADeviceCountThatFailsIsNotWritten) {
  RunSetup setup;
  setup.devices.device_count_error = cudaErrorNoDevice;
  expect_ok(setup, [](World&) {
    int count = 7;
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
    EXPECT_EQ(count, 7);
    EXPECT_EQ(cudaPeekAtLastError(), cudaErrorNoDevice);
    EXPECT_EQ(cudaGetLastError(), cudaErrorNoDevice);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  });
}

TEST(Cudart, MemoryEndsWhereTheDeviceEnds) {
  RunSetup setup;
  setup.devices.memory_bytes = 1000;
  expect_ok(setup, [](World&) {
    void* first = nullptr;
    void* second = nullptr;
    check(cudaMalloc(&first, 600));
    EXPECT_EQ(cudaMalloc(&second, 600), cudaErrorMemoryAllocation);
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total));
    EXPECT_EQ(free, 400);
    EXPECT_EQ(total, 1000);
    check(cudaFree(first));
    check(cudaMalloc(&second, 600));
    check(cudaFree(second));
    check(cudaFree(nullptr));
  });
}

TEST(Cudart, CopiesMoveBytesInStreamOrder) {
  expect_ok([](World&) {
    std::vector<int> source(kInts);
    for (int i = 0; i < kInts; ++i) source[static_cast<std::size_t>(i)] = i * i;
    const std::vector<int> expected = source;
    std::byte* first = zeroed(kIntBytes);
    std::byte* second = zeroed(kIntBytes);
    const cudaStream_t stream = new_stream();
    check(cudaMemcpyAsync(first, source.data(), kIntBytes, cudaMemcpyHostToDevice, stream));
    source.assign(kInts, -1);  // pageable memory: its bytes were taken
    check(cudaMemcpyAsync(second, first, kIntBytes, cudaMemcpyDeviceToDevice, stream));
    std::vector<int> result(kInts);
    check(cudaMemcpyAsync(result.data(), second, kIntBytes, cudaMemcpyDefault, stream));
    EXPECT_EQ(result, expected);  // pageable memory: the call waited
    check(cudaMemsetAsync(second, 0xff, kIntBytes, stream));
    check(cudaStreamSynchronize(stream));
    check(cudaMemcpy(result.data(), second, kIntBytes, cudaMemcpyDeviceToHost));
    EXPECT_EQ(result, std::vector<int>(kInts, -1));
  });
}

TEST(Cudart, RowsOfACopyLeaveTheGapsAlone) {
  expect_ok([](World&) {
    std::byte* memory = zeroed(32);
    const cudaStream_t stream = new_stream();
    const std::vector<unsigned char> source{1, 2, 3, 4, 5, 6};
    check(cudaMemcpy2DAsync(memory, 8, source.data(), 2, 2, 3, cudaMemcpyHostToDevice, stream));
    check(cudaStreamSynchronize(stream));
    std::vector<unsigned char> result(12);
    check(cudaMemcpy2D(result.data(), 4, memory, 8, 4, 3, cudaMemcpyDeviceToHost));
    EXPECT_EQ(result, (std::vector<unsigned char>{1, 2, 0, 0, 3, 4, 0, 0, 5, 6, 0, 0}));
    EXPECT_EQ(cudaMemcpy2D(memory, 2, source.data(), 4, 4, 1, cudaMemcpyHostToDevice),
              cudaErrorInvalidPitchValue);
  });
}

TEST(Cudart, PinnedMemoryIsWrittenWhenTheStreamGetsThere) {
  std::int64_t early = 0;
  expect_ok([&](World&) {
    int* pinned = nullptr;
    check(cudaMallocHost(reinterpret_cast<void**>(&pinned), kIntBytes));
    std::byte* memory = zeroed(kIntBytes);
    const cudaStream_t stream = new_stream();
    pinned[0] = 1;
    check(cudaMemcpyAsync(pinned, memory, kIntBytes, cudaMemcpyDeviceToHost, stream));
    early += pinned[0];
    check(cudaStreamSynchronize(stream));
    EXPECT_EQ(pinned[0], 0);
    check(cudaFreeHost(pinned));
  });
  EXPECT_GT(early, 0);  // in some runs it was not there yet
}

TEST(Cudart, EventsTellWhatIsDoneAndWhen) {
  expect_ok([](World&) {
    const cudaEvent_t begin = new_event(cudaEventDefault);
    const cudaEvent_t end = new_event(cudaEventDefault);
    const cudaEvent_t untimed = new_event();
    const cudaStream_t stream = new_stream();
    auto* memory = reinterpret_cast<int*>(zeroed(kIntBytes));
    float ms = 0;
    EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaErrorInvalidResourceHandle);
    check(cudaEventRecord(begin, stream));
    check(launch_fill(memory, kInts, 1, stream));
    check(launch_fill(memory, kInts, 2, stream));
    check(cudaEventRecord(end, stream));
    check(cudaEventRecord(untimed, stream));
    EXPECT_EQ(cudaEventElapsedTime(&ms, begin, untimed), cudaErrorInvalidResourceHandle);
    while (cudaEventQuery(end) == cudaErrorNotReady) continue;
    check(cudaEventElapsedTime(&ms, begin, end));
    EXPECT_FLOAT_EQ(ms, 0.010F);
    check(cudaEventSynchronize(untimed));
    check(cudaStreamQuery(stream));
  });
}

TEST(Cudart, ElapsedTimeOfWhatIsBlockedIsNotReady) {
  expect_ok([](World&) {
    const cudaEvent_t begin = new_event(cudaEventDefault);
    const cudaEvent_t end = new_event(cudaEventDefault);
    const cudaStream_t blocked = new_stream();
    const cudaStream_t other = new_stream();
    std::byte* flag = zeroed(4);
    check(cudaEventRecord(begin, blocked));
    wait_value(blocked, flag, 1);
    check(cudaEventRecord(end, blocked));
    float ms = 0;
    EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaErrorNotReady);
    EXPECT_EQ(cudaStreamQuery(blocked), cudaErrorNotReady);
    EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
    write_value(other, flag, 1);
    check(cudaDeviceSynchronize());
    check(cudaEventElapsedTime(&ms, begin, end));
  });
}

TEST(Cudart, LaunchesAreNoted) {
  RunSetup setup;
  setup.ranks = 2;
  setup.devices.count = 2;
  setup.devices.one_process = true;
  expect_ok(setup, [](World& world) {
    static int* memory[2] = {};
    memory[world.rank()] = reinterpret_cast<int*>(zeroed(kIntBytes));
    world.barrier();
    if (world.rank() == 1) return;
    std::vector<std::string> noted;
    const LaunchLog log([&](const auto& launch) {
      noted.push_back(fmt::format("{} {} {} {}", static_cast<int>(launch.kind), launch.name,
                                  launch.bytes, Machine::current().describe(launch.op)));
    });
    check(cudaDeviceEnablePeerAccess(1, 0));
    const cudaStream_t stream = new_stream();
    check(launch_fill(memory[0], 4, 1, stream));
    check(cudaMemcpyAsync(memory[0] + 8, memory[0], 16, cudaMemcpyDeviceToDevice, stream));
    check(cudaMemcpyAsync(memory[1], memory[0], 16, cudaMemcpyDeviceToDevice, stream));
    int value = 0;
    check(cudaMemcpyAsync(&value, memory[0], 4, cudaMemcpyDeviceToHost, stream));
    check(cudaMemsetAsync(memory[0], 0, 8, stream));
    check(cudaEventRecord(new_event(), stream));
    EXPECT_THAT(noted, testing::ElementsAre(
                           "0 test::fill 0 rank 0 stream #0 test::fill",
                           "1 copy 16 rank 0 stream #0 copy", "3 copy 16 rank 0 stream #0 copy",
                           "2 copy 4 rank 0 stream #0 copy", "4 memset 8 rank 0 stream #0 memset"));
  });
}

TEST(Cudart, AfterTheEndOfARunEveryCallFails) {
  cudaError_t device = cudaSuccess;
  cudaError_t last = cudaSuccess;
  const Verdict verdict = run_once({}, 0, [&](World&) {
    EXPECT_EQ(cudaMemsetAsync(zeroed(4), 0, 4, nullptr), cudaErrorUnknown);
    int number = 0;
    device = cudaGetDevice(&number);
    last = cudaGetLastError();
  });
  EXPECT_THAT(verdict.message, testing::HasSubstr("cudaMemsetAsync: the default stream was used"));
  EXPECT_EQ(device, cudaErrorUnknown);
  EXPECT_EQ(last, cudaErrorUnknown);
}

}  // namespace
}  // namespace commfuse::fake

// SPDX-License-Identifier: Apache-2.0
// What the fake runtime refuses: each use of the API that it calls wrong ends the run, with a
// message that says why; errors that the real one documents are returned.
#include <array>
#include <vector>

#include "tests/fakecuda/cudart_run.h"
#include "tests/fakecuda/kernel_registry.h"
#include "tests/fakecuda/test_kernels.h"

namespace commfuse::fake {
namespace {

TEST(CudartMisuse, StreamsThatSynchroniseWithTheDefaultStream) {
  expect_misuse("cudaStreamSynchronize: the default stream was used",
                [](World&) { cudaStreamSynchronize(nullptr); });
  expect_misuse("the stream would wait for the default stream", [](World&) {
    cudaStream_t stream = nullptr;
    cudaStreamCreateWithFlags(&stream, cudaStreamDefault);
  });
}

TEST(CudartMisuse, HandlesThatMeanNothing) {
  expect_misuse("the stream was destroyed before", [](World&) {
    const cudaStream_t stream = new_stream();
    check(cudaStreamDestroy(stream));
    cudaStreamQuery(stream);
  });
  expect_misuse("the event was destroyed before", [](World&) {
    const cudaEvent_t event = new_event();
    check(cudaEventDestroy(event));
    cudaEventQuery(event);
  });
  expect_misuse("what was given is no event", [](World&) {
    new_event();
    cudaEventQuery(reinterpret_cast<cudaEvent_t>(std::uintptr_t{77}));
  });
}

TEST(CudartMisuse, HandlesOfAnotherProcess) {
  static cudaStream_t stream = nullptr;
  RunSetup setup;
  setup.ranks = 2;
  const auto body = [](World& world) {
    if (world.rank() == 0) stream = new_stream();
    world.barrier();
    check(cudaStreamSynchronize(stream));
  };
  expect_runs(setup, Verdict::Kind::host_error, "the stream belongs to rank 0", body);
  setup.devices.one_process = true;
  expect_ok(setup, body);
}

TEST(CudartMisuse, KindsOfCopiesThatAreNotThoseOfTheAddresses) {
  expect_misuse("the kind of the copy is not that of its addresses", [](World&) {
    std::array<int, 4> host{};
    cudaMemcpyAsync(zeroed(16), host.data(), 16, cudaMemcpyDeviceToDevice, new_stream());
  });
}

TEST(CudartMisuse, CopiesBeyondTheEnd) {
  expect_runs({}, Verdict::Kind::out_of_bounds, "bytes [0, 20)",
              [](World&) { check(cudaMemsetAsync(zeroed(16), 0, 20, new_stream())); });
}

TEST(CudartMisuse, AMissingWaitForTheCopyWithoutAStream) {
  expect_runs({}, Verdict::Kind::race, "stream default memset", [](World&) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, 16));
    check(cudaMemset(memory, 0, 16));
    check(launch_fill(static_cast<int*>(memory), 4, 1, new_stream()));
    check(cudaDeviceSynchronize());
  });
}

TEST(CudartMisuse, MemoryThatIsFreedTwiceOrIsNone) {
  expect_runs({}, Verdict::Kind::use_after_free, "freed before", [](World&) {
    std::byte* memory = zeroed(16);
    check(cudaFree(memory));
    cudaFree(memory);
  });
  expect_misuse("no live memory of cudaHostAlloc", [](World&) { cudaFreeHost(zeroed(16)); });
}

TEST(CudartMisuse, KernelsWithoutTwin) {
  expect_misuse("a kernel launch: the kernel test::forgotten has no host twin", [](World&) {
    cudaLaunchKernel(forgotten_kernel(), {1, 1, 1}, {1, 1, 1}, nullptr, 0, new_stream());
  });
}

TEST(CudartMisuse, LaunchesThatTheDeviceRefuses) {
  expect_ok([](World&) {
    const cudaStream_t stream = new_stream();
    int* memory = reinterpret_cast<int*>(zeroed(16));
    int count = 4;
    std::array<void*, 3> arguments{&memory, &count, &count};
    const auto launch = [&](dim3 grid, dim3 block, std::size_t shared) {
      return cudaLaunchKernel(fill_kernel(), grid, block, arguments.data(), shared, stream);
    };
    EXPECT_EQ(launch({0, 1, 1}, {32, 1, 1}, 0), cudaErrorInvalidConfiguration);
    EXPECT_EQ(launch({1, 65536, 1}, {32, 1, 1}, 0), cudaErrorInvalidConfiguration);
    EXPECT_EQ(launch({1, 1, 1}, {64, 32, 1}, 0), cudaErrorInvalidConfiguration);
    EXPECT_EQ(launch({1, 1, 1}, {32, 1, 1}, 64 << 10), cudaErrorInvalidValue);
    check(
        cudaFuncSetAttribute(fill_kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
    EXPECT_EQ(launch({1, 1, 1}, {32, 1, 1}, 64 << 10), cudaSuccess);
    EXPECT_EQ(cudaLaunchKernel(memory, {1, 1, 1}, {1, 1, 1}, nullptr, 0, stream),
              cudaErrorInvalidDeviceFunction);
  });
}

TEST(CudartMisuse, EntryPointsThatAreNotThere) {
  RunSetup setup;
  setup.devices.driver_version = 12080;
  setup.devices.missing_driver_functions = {"cuStreamWriteValue32"};
  expect_ok(setup, [](World&) {
    const auto look_up = [](const char* name, unsigned int version) {
      void* function = nullptr;
      cudaDriverEntryPointQueryResult found{};
      check(cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found));
      EXPECT_EQ(function != nullptr, found == cudaDriverEntryPointSuccess);
      return found;
    };
    EXPECT_EQ(look_up("cuStreamWaitValue32", 12000), cudaDriverEntryPointSuccess);
    EXPECT_EQ(look_up("cuStreamWriteValue32", 12000), cudaDriverEntryPointSymbolNotFound);
    EXPECT_EQ(look_up("cuNothing", 12000), cudaDriverEntryPointSymbolNotFound);
    EXPECT_EQ(look_up("cuStreamWaitValue32", 13000), cudaDriverEntryPointVersionNotSufficent);
    const auto name = driver_function<CUresult (*)(CUresult, const char**)>("cuGetErrorName");
    const char* text = nullptr;
    name(CUDA_ERROR_NOT_SUPPORTED, &text);
    EXPECT_STREQ(text, "CUDA_ERROR_NOT_SUPPORTED");
  });
  expect_misuse("selects an old form", [](World&) {
    void* function = nullptr;
    cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &function, 11000, cudaEnableDefault,
                                     nullptr);
  });
}

TEST(CudartMisuse, FlagsOfValueOperations) {
  RunSetup setup;
  setup.devices.can_flush_remote_writes = false;
  const auto wait = [](unsigned int flags, std::size_t offset) {
    const auto address = reinterpret_cast<CUdeviceptr>(zeroed(16)) + offset;
    return driver_function<ValueCall>("cuStreamWaitValue32")(new_stream(), address, 0, flags);
  };
  const auto flush = unsigned{CU_STREAM_WAIT_VALUE_FLUSH};
  expect_ok(setup, [&](World&) {
    EXPECT_EQ(wait(CU_STREAM_WAIT_VALUE_EQ, 4), CUDA_SUCCESS);
    check(cudaDeviceSynchronize());
    EXPECT_EQ(wait(CU_STREAM_WAIT_VALUE_GEQ | flush, 0), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(wait(CU_STREAM_WAIT_VALUE_GEQ, 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);  // the driver's errors are not the runtime's
  });
  setup.devices.can_flush_remote_writes = true;
  expect_ok(setup,
            [&](World&) { EXPECT_EQ(wait(CU_STREAM_WAIT_VALUE_GEQ | flush, 0), CUDA_SUCCESS); });
  expect_misuse("GEQ and EQ only", [&](World&) { wait(CU_STREAM_WAIT_VALUE_AND, 0); });
  expect_misuse("only the flag DEFAULT fences the write", [](World&) {
    driver_function<ValueCall>("cuStreamWriteValue32")(new_stream(),
                                                       reinterpret_cast<CUdeviceptr>(zeroed(4)), 1,
                                                       CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER);
  });
}

TEST(CudartMisuse, AttributesThatTheFakeDoesNotKnow) {
  expect_misuse("the fake knows no attribute 20", [](World&) {
    int value = 0;
    cudaDeviceGetAttribute(&value, cudaDevAttrComputeMode, 0);
  });
}

TEST(KernelNames, EndBeforeTheParameters) {
  EXPECT_EQ(kernel_name("_ZN8commfuse9copy_rowsIfEEvPKT_PS1_l"), "commfuse::copy_rows<float>");
  EXPECT_EQ(kernel_name("_ZN8commfuse5plainEPi"), "commfuse::plain");
  EXPECT_EQ(kernel_name("_ZN8commfuse39_GLOBAL__N__b5cb08dd_7_t_h1_cu_2ddb98c85innerEPi"),
            "commfuse::(anonymous namespace)::inner");
  EXPECT_EQ(kernel_name("_Z1fILN1n1EE0EEvPFviE"), "f<(n::E)0>");
  EXPECT_EQ(kernel_name("by_hand"), "by_hand");
}

}  // namespace
}  // namespace commfuse::fake

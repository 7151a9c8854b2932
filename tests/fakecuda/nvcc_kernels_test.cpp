// SPDX-License-Identifier: Apache-2.0
// Objects that nvcc compiled, linked with the fake instead of the runtime.
#include "tests/fakecuda/nvcc_kernels.h"

#include <vector>

#include "tests/fakecuda/cudart_run.h"

namespace commfuse::fake {
namespace {

TEST(NvccKernels, RunTheirTwins) {
  expect_ok([](World&) {
    constexpr long kCount = 300;
    std::vector<float> values(kCount, 3.0F);
    auto* data = reinterpret_cast<float*>(zeroed(kCount * sizeof(float)));
    auto* whole = reinterpret_cast<int*>(zeroed(kCount * sizeof(int)));
    const cudaStream_t stream = new_stream();
    check(cudaMemcpyAsync(data, values.data(), kCount * sizeof(float), cudaMemcpyHostToDevice,
                          stream));
    launch_scale(data, kCount, 2.0F, stream);
    launch_fill_unnamed(whole, kCount, 5, stream);
    check(cudaGetLastError());
    check(cudaMemcpyAsync(values.data(), data, kCount * sizeof(float), cudaMemcpyDeviceToHost,
                          stream));
    EXPECT_EQ(values, std::vector<float>(kCount, 6.0F));
    std::vector<int> numbers(kCount);
    check(cudaMemcpyAsync(numbers.data(), whole, kCount * sizeof(int), cudaMemcpyDeviceToHost,
                          stream));
    EXPECT_EQ(numbers, std::vector<int>(kCount, 5));
  });
}

TEST(NvccKernels, RunInReplaysOfAGraph) {
  expect_ok([](World&) {
    constexpr long kCount = 300;
    std::vector<float> values(kCount, 3.0F);
    auto* data = reinterpret_cast<float*>(zeroed(kCount * sizeof(float)));
    const cudaStream_t stream = new_stream();
    check(cudaMemcpyAsync(data, values.data(), kCount * sizeof(float), cudaMemcpyHostToDevice,
                          stream));
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    launch_scale(data, kCount, 2.0F, stream);
    check(cudaGetLastError());
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t exec = nullptr;
    check(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; ++i) check(cudaGraphLaunch(exec, stream));
    check(cudaMemcpyAsync(values.data(), data, kCount * sizeof(float), cudaMemcpyDeviceToHost,
                          stream));
    EXPECT_EQ(values, std::vector<float>(kCount, 24.0F));
  });
}

TEST(NvccKernels, ALaunchThatDoesNotFitIsTheLastError) {
  expect_ok([](World&) {
    auto* data = reinterpret_cast<float*>(zeroed(sizeof(float)));
    launch_too_large(data, new_stream());
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  });
}

TEST(NvccKernels, TheDefaultStreamIsFound) {
  expect_misuse("the default stream was used", [](World&) {
    launch_scale(reinterpret_cast<float*>(zeroed(sizeof(float))), 1, 1.0F, nullptr);
  });
}

}  // namespace
}  // namespace commfuse::fake

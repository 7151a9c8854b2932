// SPDX-License-Identifier: Apache-2.0
// Objects that nvcc compiled, linked with the fake instead of the runtime.
#include "tests/fakecuda/nvcc_kernels.h"

#include <vector>

#include "tests/fakecuda/cudart_run.h"

namespace commfuse::fake {
namespace {

TEST(NvccKernels, RunTheirTwins) {
  expect_ok([](World&) {
    constexpr long kElements = 300;
    std::vector<float> values(kElements, 3.0F);
    auto* data = reinterpret_cast<float*>(zeroed(kElements * sizeof(float)));
    auto* whole = reinterpret_cast<int*>(zeroed(kElements * sizeof(int)));
    const cudaStream_t stream = new_stream();
    check(cudaMemcpyAsync(data, values.data(), kElements * sizeof(float), cudaMemcpyHostToDevice,
                          stream));
    launch_scale(data, kElements, 2.0F, stream);
    launch_fill_unnamed(whole, kElements, 5, stream);
    check(cudaGetLastError());
    check(cudaMemcpyAsync(values.data(), data, kElements * sizeof(float), cudaMemcpyDeviceToHost,
                          stream));
    EXPECT_EQ(values, std::vector<float>(kElements, 6.0F));
    std::vector<int> numbers(kElements);
    check(cudaMemcpyAsync(numbers.data(), whole, kElements * sizeof(int), cudaMemcpyDeviceToHost,
                          stream));
    EXPECT_EQ(numbers, std::vector<int>(kElements, 5));
  });
}

TEST(NvccKernels, RunInReplaysOfAGraph) {
  expect_ok([](World&) {
    constexpr long kElements = 300;
    std::vector<float> values(kElements, 3.0F);
    auto* data = reinterpret_cast<float*>(zeroed(kElements * sizeof(float)));
    const cudaStream_t stream = new_stream();
    check(cudaMemcpyAsync(data, values.data(), kElements * sizeof(float), cudaMemcpyHostToDevice,
                          stream));
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    launch_scale(data, kElements, 2.0F, stream);
    check(cudaGetLastError());
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t exec = nullptr;
    check(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; ++i) check(cudaGraphLaunch(exec, stream));
    check(cudaMemcpyAsync(values.data(), data, kElements * sizeof(float), cudaMemcpyDeviceToHost,
                          stream));
    EXPECT_EQ(values, std::vector<float>(kElements, 24.0F));
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

// SPDX-License-Identifier: Apache-2.0
// Captured streams: what replays, in which order, and what a capture does not take.
#include <vector>

#include "tests/fakecuda/cudart_run.h"
#include "tests/fakecuda/test_kernels.h"

namespace commfuse::fake {
namespace {

constexpr int kSums = 16;
constexpr std::size_t kSumBytes = kSums * sizeof(int);

/// Two streams on one piece of memory: `second` doubles what `first` wrote, then `first` goes on.
struct Forked {
  cudaStream_t first = new_stream();
  cudaStream_t second = new_stream();
  cudaEvent_t fork = new_event();
  cudaEvent_t join = new_event();
  int* data = reinterpret_cast<int*>(zeroed(kSumBytes));
  int* sum = reinterpret_cast<int*>(zeroed(kSumBytes));

  Forked() {  // loads the kernels
    check(launch_fill(data, kSums, 0, first));
    check(launch_add(sum, data, kSums, first));
    check(cudaDeviceSynchronize());
  }

  /// sum += 3, by way of data.
  void enqueue(bool with_fork_edge, bool with_join_edge) const {
    check(launch_fill(data, kSums, 3, first));
    check(cudaEventRecord(fork, first));
    check(cudaStreamWaitEvent(second, fork, 0));
    if (!with_fork_edge) check(launch_fill(data, kSums, 3, first));
    check(launch_add(sum, data, kSums, second));
    check(cudaEventRecord(join, second));
    if (with_join_edge) check(cudaStreamWaitEvent(first, join, 0));
  }

  [[nodiscard]] std::vector<int> sums() const {
    std::vector<int> result(kSums);
    check(cudaMemcpyAsync(result.data(), sum, kSumBytes, cudaMemcpyDeviceToHost, first));
    return result;
  }
};

cudaGraphExec_t captured(const Forked& forked, bool with_fork_edge) {
  check(cudaStreamBeginCapture(forked.first, cudaStreamCaptureModeGlobal));
  forked.enqueue(with_fork_edge, true);
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(forked.first, &graph));
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, graph, 0));
  check(cudaGraphDestroy(graph));
  return exec;
}

TEST(CudartGraphs, RunNothingUntilTheyAreLaunchedAndThenEachTime) {
  expect_ok([](World&) {
    const Forked forked;
    const cudaGraphExec_t exec = captured(forked, true);
    EXPECT_EQ(forked.sums(), std::vector<int>(kSums, 0));
    check(cudaGraphLaunch(exec, forked.first));
    EXPECT_EQ(forked.sums(), std::vector<int>(kSums, 3));
    check(cudaGraphLaunch(exec, forked.first));
    check(cudaGraphLaunch(exec, forked.first));
    EXPECT_EQ(forked.sums(), std::vector<int>(kSums, 9));
    check(cudaGraphExecDestroy(exec));
  });
}

TEST(CudartGraphs, AMissingEdgeIsARace) {
  expect_runs({}, Verdict::Kind::race, "graph lane", [](World&) {
    const Forked forked;
    check(cudaGraphLaunch(captured(forked, false), forked.first));
    check(cudaDeviceSynchronize());
  });
}

TEST(CudartGraphs, LaunchesAreInTheOrderOfTheirStream) {
  expect_runs({}, Verdict::Kind::race, "test::fill", [](World&) {
    const Forked forked;
    const cudaGraphExec_t exec = captured(forked, true);
    check(cudaGraphLaunch(exec, forked.first));
    check(launch_fill(forked.sum, kSums, 1, forked.second));  // not in the launch's stream
    check(cudaDeviceSynchronize());
  });
}

TEST(CudartGraphs, ValuesAreThoseOfTheCapture) {
  expect_ok([](World&) {
    const cudaStream_t stream = new_stream();
    std::byte* flag = zeroed(4);
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    write_value(stream, flag, 7);
    wait_value(stream, flag, 7);
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t exec = nullptr;
    check(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 2; ++i) check(cudaGraphLaunch(exec, stream));
    std::uint32_t value = 0;
    check(cudaMemcpyAsync(&value, flag, 4, cudaMemcpyDeviceToHost, stream));
    EXPECT_EQ(value, 7);
  });
}

TEST(CudartGraphs, WorkThatIsNotJoinedIsAnError) {
  expect_ok([](World&) {
    const Forked forked;
    check(cudaStreamBeginCapture(forked.first, cudaStreamCaptureModeGlobal));
    forked.enqueue(true, false);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(forked.second, &graph), cudaErrorStreamCaptureUnmatched);
    EXPECT_EQ(cudaStreamEndCapture(forked.first, &graph), cudaErrorStreamCaptureUnjoined);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(cudaStreamEndCapture(forked.first, &graph), cudaErrorIllegalState);
    EXPECT_EQ(cudaStreamWaitEvent(forked.first, forked.join, 0), cudaErrorCapturedEvent);
  });
}

/// A call during a capture is an error and spoils it.
void expect_spoilt(cudaError_t error, const std::function<cudaError_t(const Forked&)>& call) {
  expect_ok([&](World&) {
    const Forked forked;
    check(cudaStreamBeginCapture(forked.first, cudaStreamCaptureModeGlobal));
    check(cudaEventRecord(forked.fork, forked.first));
    cudaStreamCaptureStatus status{};
    check(cudaStreamIsCapturing(forked.first, &status));
    EXPECT_EQ(status, cudaStreamCaptureStatusActive);
    EXPECT_EQ(call(forked), error);
    check(cudaStreamIsCapturing(forked.first, &status));
    EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(forked.first, &graph), cudaErrorStreamCaptureInvalidated);
    check(cudaStreamIsCapturing(forked.first, &status));
    EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  });
}

TEST(CudartGraphs, CallsThatWaitSpoilTheCapture) {
  const cudaError_t unsupported = cudaErrorStreamCaptureUnsupported;
  expect_spoilt(unsupported, [](const Forked& f) { return cudaStreamSynchronize(f.first); });
  expect_spoilt(unsupported, [](const Forked& f) { return cudaStreamQuery(f.first); });
  expect_spoilt(unsupported, [](const Forked&) { return cudaDeviceSynchronize(); });
  expect_spoilt(unsupported, [](const Forked& f) { return cudaFree(f.data); });
  expect_spoilt(unsupported, [](const Forked& f) { return cudaMemset(f.data, 0, kSumBytes); });
  expect_spoilt(unsupported, [](const Forked&) {
    void* memory = nullptr;
    return cudaMalloc(&memory, 4);
  });
  expect_spoilt(unsupported, [](const Forked& f) {
    int host = 0;
    return cudaMemcpyAsync(&host, f.data, 4, cudaMemcpyDeviceToHost, f.first);
  });
  expect_spoilt(cudaErrorCapturedEvent, [](const Forked& f) { return cudaEventQuery(f.fork); });
  expect_spoilt(cudaErrorCapturedEvent,
                [](const Forked& f) { return cudaEventSynchronize(f.fork); });
}

TEST(CudartGraphs, WaitingForWhatIsNotCapturedSpoilsTheCapture) {
  expect_spoilt(cudaErrorStreamCaptureIsolation, [](const Forked& f) {
    check(cudaEventRecord(f.join, f.second));
    return cudaStreamWaitEvent(f.first, f.join, 0);
  });
}

TEST(CudartGraphs, EventsRecordedExternallyAreRecordedByEachLaunch) {
  expect_ok([](World&) {
    const Forked forked;
    const cudaEvent_t begin = new_event(cudaEventDefault);
    const cudaEvent_t end = new_event(cudaEventDefault);
    check(cudaStreamBeginCapture(forked.first, cudaStreamCaptureModeThreadLocal));
    check(cudaEventRecordWithFlags(begin, forked.first, cudaEventRecordExternal));
    forked.enqueue(true, true);
    check(cudaEventRecordWithFlags(end, forked.first, cudaEventRecordExternal));
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(forked.first, &graph));
    cudaGraphExec_t exec = nullptr;
    check(cudaGraphInstantiate(&exec, graph, 0));
    check(cudaGraphUpload(exec, forked.first));
    float first_ms = 0;
    float later_ms = 0;
    EXPECT_EQ(cudaEventElapsedTime(&first_ms, begin, end), cudaErrorInvalidResourceHandle);
    const cudaEvent_t origin = new_event(cudaEventDefault);
    check(cudaEventRecord(origin, forked.first));
    check(cudaGraphLaunch(exec, forked.first));
    check(cudaStreamSynchronize(forked.first));
    check(cudaEventElapsedTime(&first_ms, origin, end));
    check(cudaGraphLaunch(exec, forked.first));
    check(cudaEventSynchronize(end));
    check(cudaEventElapsedTime(&later_ms, origin, begin));
    EXPECT_GE(later_ms, first_ms);
    check(cudaEventElapsedTime(&later_ms, begin, end));
    EXPECT_GT(later_ms, 0);
  });
}

TEST(CudartGraphs, EventsAreRecordedExternallyInCapturesOnly) {
  expect_ok([](World&) {
    const Forked forked;
    EXPECT_EQ(cudaEventRecordWithFlags(forked.fork, forked.first, cudaEventRecordExternal),
              cudaErrorInvalidValue);
    EXPECT_EQ(cudaEventRecordWithFlags(forked.fork, forked.first, 8), cudaErrorInvalidValue);
    EXPECT_EQ(cudaEventRecordWithFlags(forked.fork, forked.first, cudaEventRecordDefault),
              cudaSuccess);
  });
}

TEST(CudartGraphs, AnExternalRecordIsWorkThatMustBeJoined) {
  expect_ok([](World&) {
    const Forked forked;
    check(cudaStreamBeginCapture(forked.first, cudaStreamCaptureModeThreadLocal));
    forked.enqueue(true, true);
    check(cudaEventRecordWithFlags(new_event(), forked.second, cudaEventRecordExternal));
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(forked.first, &graph), cudaErrorStreamCaptureUnjoined);
  });
}

TEST(CudartGraphs, AnUploadIsNoPartOfACapture) {
  expect_ok([](World&) {
    const Forked forked;
    const cudaGraphExec_t exec = captured(forked, true);
    check(cudaStreamBeginCapture(forked.first, cudaStreamCaptureModeRelaxed));
    EXPECT_EQ(cudaGraphUpload(exec, forked.first), cudaErrorStreamCaptureUnsupported);
    check(cudaGraphUpload(exec, forked.second));
  });
}

TEST(CudartGraphs, HandlesOfGraphsMustMeanSomething) {
  expect_misuse("no graph, or was destroyed before", [](World&) {
    const Forked forked;
    const cudaGraphExec_t exec = captured(forked, true);
    check(cudaGraphExecDestroy(exec));
    cudaGraphLaunch(exec, forked.first);
  });
}

}  // namespace
}  // namespace commfuse::fake

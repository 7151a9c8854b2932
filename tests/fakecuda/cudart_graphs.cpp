// SPDX-License-Identifier: Apache-2.0
// Graphs, captured from streams. A launch replays the captured calls, with the values that they had
// at the capture, in hidden streams: one per captured stream.
#include <cuda_runtime_api.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/fakecuda/captured_streams.h"
#include "tests/fakecuda/cudart_call.h"
#include "tests/fakecuda/fake_runtime.h"

namespace {

constexpr std::int64_t kLaunch_ns = 2000;  // of the host, in virtual time

using commfuse::fake::CapturedGraph;
using commfuse::fake::CapturedStreams;
using commfuse::fake::cudart_call;
using commfuse::fake::FakeGraphExec;
using commfuse::fake::FakeRuntime;
using commfuse::fake::Finding;
using commfuse::fake::Machine;
using commfuse::fake::StreamCapture;
using commfuse::fake::StreamId;
using commfuse::fake::StreamRef;
using commfuse::fake::Verdict;

/// Handles of graphs are places in a list, counted from 1.
template <class Handle, class Item>
Handle put(std::vector<std::unique_ptr<Item>>& items, Item item) {
  items.push_back(std::make_unique<Item>(std::move(item)));
  return reinterpret_cast<Handle>(items.size());
}

template <class Item, class Handle>
std::unique_ptr<Item>& get(std::vector<std::unique_ptr<Item>>& items, Handle handle) {
  const auto place = reinterpret_cast<std::uintptr_t>(handle) - 1;
  if (place >= items.size() || !items[place]) {
    throw Finding(Verdict::Kind::host_error, "what was given is no graph, or was destroyed before");
  }
  return items[place];
}

FakeGraphExec prepare(Machine& machine, const CapturedGraph& graph) {
  FakeGraphExec exec{
      graph, {}, {}, machine.create_event("graph begins"), machine.create_event("graph ends")};
  for (std::size_t lane = 0; lane < graph.lanes.size(); ++lane) {
    exec.lanes.push_back(
        {machine.create_stream(fmt::format("graph lane {}", lane), graph.lanes[lane]),
         graph.lanes[lane]});
  }
  for (std::size_t point = 0; point < graph.points; ++point) {
    exec.points.push_back(machine.create_event(fmt::format("graph point {}", point)));
  }
  return exec;
}

/// To libraries that have work for captured streams.
void show_captures(FakeRuntime& runtime, Machine& machine) {
  CapturedStreams& streams = machine.kept<CapturedStreams>();
  streams.captured = [&runtime](StreamId stream) { return runtime.capture_of(stream) != nullptr; };
  streams.add = [&runtime](StreamId stream, const CapturedStreams::Enqueue& enqueue) {
    runtime.capture_of(stream)->add(stream, [enqueue](FakeRuntime&, Machine& later,
                                                      StreamRef lane) { enqueue(later, lane.id); });
  };
}

/// Lane 0 begins after the stream and ends last; the others hang between its points.
void replay(FakeRuntime& runtime, Machine& machine, const FakeGraphExec& exec, StreamRef stream) {
  machine.record(stream.id, exec.begins);
  machine.wait(exec.lanes.front().id, exec.begins);
  for (const CapturedGraph::Op& op : exec.graph.ops) {
    const StreamRef lane = exec.lanes[op.lane];
    if (op.records) machine.record(lane.id, exec.points[*op.records]);
    if (op.awaits) machine.wait(lane.id, exec.points[*op.awaits]);
    if (op.enqueue) op.enqueue(runtime, machine, lane);
  }
  machine.record(exec.lanes.front().id, exec.ends);
  machine.wait(stream.id, exec.ends);
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    const StreamRef origin = runtime.use(stream);
    if (runtime.capture_of(origin.id)) return cudaErrorIllegalState;
    runtime.captures[origin.id] = std::make_shared<StreamCapture>(origin, mode);
    show_captures(runtime, machine);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine&) {
    *graph = nullptr;
    const auto capture = runtime.capture_of(runtime.use(stream).id);
    if (!capture) return cudaErrorIllegalState;
    if (!capture->began_in(runtime.use(stream).id)) return cudaErrorStreamCaptureUnmatched;
    capture->end();
    std::erase_if(runtime.captures, [&](const auto& entry) { return entry.second == capture; });
    if (!capture->valid()) return cudaErrorStreamCaptureInvalidated;
    if (!capture->joined()) return cudaErrorStreamCaptureUnjoined;
    *graph = put<cudaGraph_t>(runtime.graphs, capture->graph());
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine&) {
    const auto capture = runtime.capture_of(runtime.use(stream).id);
    *status = !capture           ? cudaStreamCaptureStatusNone
              : capture->valid() ? cudaStreamCaptureStatusActive
                                 : cudaStreamCaptureStatusInvalidated;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    runtime.check_lull(machine, "cudaGraphInstantiate");
    *exec =
        put<cudaGraphExec_t>(runtime.graph_execs, prepare(machine, *get(runtime.graphs, graph)));
    return cudaSuccess;
  });
}

/// Nothing is left for the first launch to set up.
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    const StreamRef target = runtime.use(stream);
    runtime.check_lull(machine, "cudaGraphUpload");
    get(runtime.graph_execs, exec);
    return runtime.capture_of(target.id) ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    const StreamRef target = runtime.use(stream);
    if (runtime.capture_of(target.id)) {
      throw Finding(Verdict::Kind::host_error, "the fake nests no graphs");
    }
    replay(runtime, machine, *get(runtime.graph_execs, exec), target);
    machine.advance_host(kLaunch_ns);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine&) {
    get(runtime.graphs, graph).reset();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine&) {
    get(runtime.graph_execs, exec).reset();  // what was launched goes on
    return cudaSuccess;
  });
}

}  // extern "C"

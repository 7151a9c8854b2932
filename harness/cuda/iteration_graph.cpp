// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/iteration_graph.h"

#include <utility>

namespace commfuse {
namespace {

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};
using Graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph>;

/// Left by an exception, the stream captures no longer.
class Capture {
 public:
  // Ranks may be threads of one process: what others do meanwhile is their business.
  explicit Capture(cudaStream_t origin) : origin_(origin) {
    CFB_CUDA(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal));
  }
  ~Capture() {
    if (origin_ == nullptr) return;
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(origin_, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  Graph end() {
    cudaGraph_t graph = nullptr;
    CFB_CUDA(cudaStreamEndCapture(std::exchange(origin_, nullptr), &graph));
    return Graph(graph);
  }

 private:
  cudaStream_t origin_;
};

void order(cudaStream_t before, cudaStream_t after, cudaEvent_t event) {
  CFB_CUDA(cudaEventRecord(event, before));
  CFB_CUDA(cudaStreamWaitEvent(after, event, cudaEventWaitDefault));
}

}  // namespace

IterationGraph::IterationGraph(cudaStream_t origin, std::span<const cudaStream_t> others,
                               const std::function<void()>& enqueue,
                               const std::function<void()>& finish) {
  const CudaEvent edge(EventUse::order);
  Capture capture(origin);
  for (const cudaStream_t other : others) order(origin, other, edge);
  enqueue();
  for (const cudaStream_t other : others) order(other, origin, edge);
  finish();
  const Graph graph = capture.end();
  cudaGraphExec_t exec = nullptr;
  CFB_CUDA(cudaGraphInstantiate(&exec, graph.get(), 0));
  graph_.reset(exec);
  // The first launch would do it otherwise, among those that are timed.
  CFB_CUDA(cudaGraphUpload(exec, origin));
  CFB_CUDA(cudaStreamSynchronize(origin));
}

void IterationGraph::launch(cudaStream_t stream) {
  CFB_CUDA(cudaGraphLaunch(graph_.get(), stream));
  CFB_CUDA(cudaEventRecord(finished_, stream));
}

}  // namespace commfuse

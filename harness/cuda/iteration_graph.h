// SPDX-License-Identifier: Apache-2.0
// One iteration as a CUDA graph: what the host calls of an iteration put into streams, captured
// once and replayed with one call.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <span>
#include <type_traits>

#include "harness/cuda/cuda_resources.h"

namespace commfuse {

/// Replays run one after the other where they are launched in one stream. What was captured, the
/// memory and the events recorded externally, outlives the graph.
class IterationGraph {
 public:
  /// Captures `enqueue`, which may use `origin` and all of `others`, and then `finish`, which may
  /// use `origin` and comes after all that was enqueued. Neither may wait, allocate or load
  /// anything. Runs nothing, and returns when the graph is on the device.
  IterationGraph(cudaStream_t origin, std::span<const cudaStream_t> others,
                 const std::function<void()>& enqueue, const std::function<void()>& finish);

  void launch(cudaStream_t stream);
  /// Of the last launch. To be asked rather than an event within the graph, which may still say
  /// what the launch before left.
  [[nodiscard]] cudaEvent_t finished() const { return finished_; }

 private:
  struct Destroy {
    void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy> graph_;
  CudaEvent finished_{EventUse::order};
};

}  // namespace commfuse

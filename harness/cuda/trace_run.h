// SPDX-License-Identifier: Apache-2.0
// Iterations under CUPTI: what they must have left, sentinels around them, what came of it.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <span>
#include <vector>

#include "harness/cuda/cuda_kernels.h"
#include "harness/cuda/cuda_plan.h"
#include "harness/cuda/cuda_transport.h"
#include "harness/cuda/cupti_tracer.h"
#include "harness/cuda/device_trace.h"
#include "harness/executor.h"
#include "harness/world/world.h"

namespace commfuse {

class TraceRun {
 public:
  /// `channel` is null for plans without communication. `one_process`: the ranks of the group are
  /// all ranks of this process, and share the tracer; otherwise each has its own.
  TraceRun(World& group, CuptiTracer& tracer, bool one_process, CudaPlan& plan,
           const CudaChannel* channel, const CudaKernels& kernels, const DeviceStorage& storage,
           cudaStream_t compute);
  ~TraceRun();
  TraceRun(const TraceRun&) = delete;
  TraceRun& operator=(const TraceRun&) = delete;

  /// Collective: one iteration. `run` enqueues it, waits for it, and gives its timeline.
  TracedIteration iteration(const std::function<Timeline()>& run);

 private:
  void launch_sentinels(std::size_t first);
  void add_expected(const CudaChannel* channel, const CudaKernels& kernels,
                    const DeviceStorage& storage);

  World& group_;
  CuptiTracer& tracer_;
  bool leads_;
  CudaPlan& plan_;
  std::vector<cudaStream_t> streams_;
  std::vector<ExpectedWork> expected_;
  std::string failure_;
};

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// Events of a program's compute lane as CUDA events.
#pragma once

#include <cuda_runtime_api.h>

#include <optional>
#include <vector>

#include "harness/cuda/cuda_resources.h"
#include "harness/program.h"

namespace commfuse {

/// One CUDA event for each op of the compute lane that a transfer waits for. A wait refers to the
/// last record made before the host call: enqueueing in plan order makes that the right iteration,
/// since a program's earlier-iteration dependencies never come later in the plan than their waiter.
class ComputeEvents {
 public:
  explicit ComputeEvents(const Program& program) : events_(program.events().size()) {
    for (const EventId id : program.compute_lane()) {
      const Event& event = program.event(id);
      if (event.feeds_transport || event.feeds_next_transport) events_[id].emplace(EventUse::order);
    }
  }

  /// The op was enqueued on the compute stream just now.
  void completed(EventId id, cudaStream_t compute) const {
    if (events_[id]) CFB_CUDA(cudaEventRecord(*events_[id], compute));
  }
  void wait(cudaStream_t stream, EventId id) const {
    CFB_CUDA(cudaStreamWaitEvent(stream, events_[id].value(), cudaEventWaitDefault));
  }

 private:
  std::vector<std::optional<CudaEvent>> events_;  // by EventId
};

}  // namespace commfuse

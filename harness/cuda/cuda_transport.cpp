// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/cuda_transport.h"

namespace commfuse {
namespace {

/// Its completion is known to the compute stream, not to the transport.
bool on_compute_lane(const Event& event) {
  return event.kind == EventKind::compute ||
         (event.kind == EventKind::collective && event.lane == Lane::compute);
}

}  // namespace

void CudaChannel::wait_for(cudaStream_t stream, EventId event, Epoch epoch) {
  if (on_compute_lane(program().event(event))) {
    plan_.compute_events.wait(stream, event);
  } else {
    wait_for_transfer(stream, event, epoch);
  }
}

void CudaChannel::wait_for_dependencies(cudaStream_t stream, EventId event, Turn turn) {
  for (const EventId before : program().dependencies(event)) wait_for(stream, before, turn.epoch);
  if (turn.first) return;
  for (const EventId before : program().earlier_iteration(event)) {
    wait_for(stream, before, turn.epoch - 1);
  }
}

void CudaChannel::wait_for_all(cudaStream_t stream, Epoch epoch) {
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    for (const EventId id : program().transfers(static_cast<Lane>(lane))) {
      if (!on_compute_lane(program().event(id))) wait_for_transfer(stream, id, epoch);
    }
  }
}

}  // namespace commfuse

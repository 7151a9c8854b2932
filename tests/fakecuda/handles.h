// SPDX-License-Identifier: Apache-2.0
// Handles of the CUDA API as ids of the machine: id + 1, so that no handle is null.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tests/fakecuda/operation.h"
#include "tests/fakecuda/verdict.h"

namespace commfuse::fake {

/// The stream behind a handle. The null stream, which synchronises with others, throws Finding.
inline StreamId stream_of(cudaStream_t handle) {
  if (handle == nullptr) {
    throw Finding(Verdict::Kind::host_error, "the default stream was used");
  }
  return static_cast<StreamId>(reinterpret_cast<std::uintptr_t>(handle) - 1);
}

inline cudaStream_t handle_of(StreamId stream) {
  return reinterpret_cast<cudaStream_t>(static_cast<std::uintptr_t>(stream) + 1);
}

/// The event behind a handle. A null handle throws Finding.
inline EventId event_of(cudaEvent_t handle) {
  if (handle == nullptr) throw Finding(Verdict::Kind::host_error, "a null event was used");
  return static_cast<EventId>(reinterpret_cast<std::uintptr_t>(handle) - 1);
}

inline cudaEvent_t handle_of(EventId event) {
  return reinterpret_cast<cudaEvent_t>(static_cast<std::uintptr_t>(event) + 1);
}

}  // namespace commfuse::fake

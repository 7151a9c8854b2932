// SPDX-License-Identifier: Apache-2.0
// Captured streams as libraries see them that know no runtime: the fakes of NCCL and cuBLASLt ask
// here before they put something into a stream.
#pragma once

#include <functional>
#include <utility>

#include "tests/fakecuda/machine.h"

namespace commfuse::fake {

/// Filled in by the fake runtime once something is captured; empty where there is none. Kept by the
/// machine.
struct CapturedStreams {
  /// Puts the same work into a stream, as often as it is called.
  using Enqueue = std::function<void(Machine& machine, StreamId stream)>;

  std::function<bool(StreamId stream)> captured;
  std::function<void(StreamId stream, Enqueue enqueue)> add;
};

inline bool is_captured(Machine& machine, StreamId stream) {
  const CapturedStreams& streams = machine.kept<CapturedStreams>();
  return streams.captured && streams.captured(stream);
}

/// Now, or in every launch of the graph that the stream is captured for.
inline void enqueue_or_capture(Machine& machine, StreamId stream,
                               CapturedStreams::Enqueue enqueue) {
  if (is_captured(machine, stream)) {
    machine.kept<CapturedStreams>().add(stream, std::move(enqueue));
  } else {
    enqueue(machine, stream);
  }
}

}  // namespace commfuse::fake

// SPDX-License-Identifier: Apache-2.0
// Streams that are captured into a graph: what is enqueued in them is kept instead of run, with the
// order that events make between them.
#pragma once

#include <driver_types.h>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "tests/fakecuda/machine.h"
#include "tests/fakecuda/pending_waits.h"

namespace commfuse::fake {

class FakeRuntime;

/// A stream, on the device that it belongs to.
struct StreamRef {
  StreamId id{};
  Context context = 0;
};

/// Enqueues the same work or value operation in a stream, as often as it is called.
using Enqueue = std::function<void(FakeRuntime& runtime, Machine& machine, StreamRef stream)>;

/// Lanes are the streams of the capture, lane 0 the one that began it. Replaying the operations in
/// this order in streams of their own makes the same edges.
struct CapturedGraph {
  struct Op {
    std::size_t lane = 0;
    Enqueue enqueue;                     // or
    std::optional<std::size_t> records;  // a point, numbered from 0, or
    std::optional<std::size_t> awaits;   // a point of another lane
  };
  std::vector<Context> lanes;
  std::vector<Op> ops;
  std::size_t points = 0;
};

class StreamCapture {
 public:
  StreamCapture(StreamRef origin, cudaStreamCaptureMode mode);

  [[nodiscard]] bool has(StreamId stream) const { return lanes_.contains(stream); }
  [[nodiscard]] bool began_in(StreamId stream) const { return origin_ == stream; }
  /// Whether calls that may synchronise are forbidden while it lasts.
  [[nodiscard]] bool strict() const { return mode_ != cudaStreamCaptureModeRelaxed; }
  [[nodiscard]] bool valid() const { return valid_; }
  void invalidate() { valid_ = false; }
  /// Until cudaStreamEndCapture.
  [[nodiscard]] bool active() const { return active_; }
  void end() { active_ = false; }

  void add(StreamId stream, Enqueue enqueue);
  /// An event was recorded: the number of the point.
  std::size_t record(StreamId stream);
  /// Waits for a point; the stream becomes part of the capture if it is not yet.
  void wait(StreamRef stream, std::size_t point);

  /// Whether the first stream comes after all work of the others.
  [[nodiscard]] bool joined() const;
  [[nodiscard]] const CapturedGraph& graph() const { return graph_; }

 private:
  std::size_t lane_of(StreamRef stream);

  StreamId origin_;
  cudaStreamCaptureMode mode_;
  bool valid_ = true;
  bool active_ = true;
  std::map<StreamId, std::size_t> lanes_;
  CapturedGraph graph_;
  std::vector<VectorClock> clocks_;        // by lane: what comes before its end
  std::vector<VectorClock> point_clocks_;  // by point
  VectorClock works_;                      // covers all work
};

}  // namespace commfuse::fake

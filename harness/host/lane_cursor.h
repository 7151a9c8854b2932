// SPDX-License-Identifier: Apache-2.0
// Where a transport stands in a lane: the next message or collective to start, and of which
// iteration.
#pragma once

#include <cstdint>
#include <span>

#include "harness/host/transport.h"

namespace commfuse {

/// Walks the events of one lane, over and over for the iterations of a run; of the messages it
/// stops at only one direction. Collectives stop both the cursor of the sends and that of the
/// receives.
class LaneCursor {
 public:
  LaneCursor(const Program& program, Lane lane, EventKind direction)
      : program_(&program), events_(program.transfers(lane)), direction_(direction) {}

  void begin(const Run& run) {
    index_ = 0;
    epoch_ = run.first;
    last_ = run.last();
    skip();
  }
  [[nodiscard]] bool finished() const { return events_.empty() || epoch_ > last_; }
  [[nodiscard]] EventId event() const { return events_[index_]; }
  [[nodiscard]] Epoch epoch() const { return epoch_; }
  /// Whether it stands at a collective; false at the end.
  [[nodiscard]] bool at_collective() const {
    return !finished() && program_->event(event()).kind == EventKind::collective;
  }
  /// Whether it stands at a message of its direction.
  [[nodiscard]] bool at_message() const {
    return !finished() && program_->event(event()).kind == direction_;
  }
  void advance() {
    step();
    skip();
  }

 private:
  void step() {
    if (++index_ == events_.size()) {
      index_ = 0;
      ++epoch_;
    }
  }
  void skip() {
    while (!finished() && !at_collective() && !at_message()) step();
  }

  const Program* program_;
  std::span<const EventId> events_;
  EventKind direction_;
  std::size_t index_ = 0;
  Epoch epoch_ = 1;
  Epoch last_ = 0;
};

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// Vector clocks of actors: host threads and streams. What an actor does at one tick is a moment; a
// clock covers the moments that are known to have happened before it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace commfuse::fake {

using Actor = std::uint32_t;
using Tick = std::uint32_t;

/// Tick 0 is before everything: every clock covers it.
struct Moment {
  Actor actor = 0;
  Tick tick = 0;
};

/// Grows with the actors it meets; those it has not met stand at tick 0.
class VectorClock {
 public:
  [[nodiscard]] Tick at(Actor actor) const { return actor < ticks_.size() ? ticks_[actor] : 0; }
  [[nodiscard]] bool covers(Moment moment) const { return at(moment.actor) >= moment.tick; }

  /// The actor's next moment, which the clock covers from now on.
  Moment advance(Actor actor) {
    if (actor >= ticks_.size()) ticks_.resize(std::size_t{actor} + 1);
    return {actor, ++ticks_[actor]};
  }

  /// Covers also what the other covers.
  void join(const VectorClock& other) {
    if (other.ticks_.size() > ticks_.size()) ticks_.resize(other.ticks_.size());
    for (std::size_t i = 0; i < other.ticks_.size(); ++i) {
      ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
    }
  }

  /// Covers only what both cover.
  void meet(const VectorClock& other) {
    if (other.ticks_.size() < ticks_.size()) ticks_.resize(other.ticks_.size());
    for (std::size_t i = 0; i < ticks_.size(); ++i) {
      ticks_[i] = std::min(ticks_[i], other.ticks_[i]);
    }
  }

 private:
  std::vector<Tick> ticks_;
};

}  // namespace commfuse::fake

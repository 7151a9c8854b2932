// SPDX-License-Identifier: Apache-2.0
// Chooses who runs next among host threads and streams. Half-way fair choices hide races; this one
// follows random priorities, which starve an actor for as long as another can run, and now and then
// demotes the one at the top. A seed replays exactly.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "tests/fakecuda/vector_clock.h"

namespace commfuse::fake {

class Scheduler {
 public:
  explicit Scheduler(std::uint64_t seed);

  /// Makes the next actor known, with a random priority: actors 0, 1, 2, ...
  void add_actor();
  /// One of `runnable`, which must not be empty.
  Actor choose(std::span<const Actor> runnable);
  /// Puts the actor below all others.
  void demote(Actor actor);

 private:
  std::uint64_t next();
  [[nodiscard]] Actor highest(std::span<const Actor> runnable) const;

  std::mt19937_64 random_;  // the same numbers everywhere, by the standard
  std::int64_t lowest_ = 0;
  std::vector<std::int64_t> priorities_;
};

}  // namespace commfuse::fake

// SPDX-License-Identifier: Apache-2.0
// Decides what happens next among everything that may happen. Half-way fair schedulers hide races;
// this one delays whatever its seed dislikes for as long as something else can run, and now and
// then changes its mind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "impls/plan.h"

namespace commfuse {

/// Something that may happen now: a unit starts, or one side of a started transfer completes.
struct Runnable {
  enum class Kind : std::uint8_t { start, finish_message, finish_collective };
  Kind kind = Kind::start;
  std::uint32_t index = 0;  // of the unit or message, counted over all ranks
  std::int32_t rank = 0;
  Lane lane = Lane::compute;
};

/// The set of what may happen, and a deterministic choice from it.
class Adversary {
 public:
  /// Seeds 4k choose uniformly. The others follow random priorities with occasional demotion: 4k+1
  /// one per event, 4k+2 one per rank (a rank stalls while the others race ahead), 4k+3 one per
  /// lane and kind (all transfers late, or all computing late).
  explicit Adversary(std::uint64_t seed);

  void add(const Runnable& runnable);
  [[nodiscard]] bool empty() const { return pool_.empty(); }
  /// Removes and returns the choice. Requires !empty().
  Runnable take();
  /// A random bit, for choices within an event.
  bool flip();

 private:
  enum class Mode : std::uint8_t { uniform, by_event, by_rank, by_kind };
  struct Entry {
    Runnable runnable;
    std::int64_t priority = 0;
  };
  std::uint64_t next();
  [[nodiscard]] std::uint64_t group_of(const Runnable& runnable) const;
  [[nodiscard]] std::size_t highest() const;

  Mode mode_;
  std::uint64_t seed_;
  std::uint64_t state_;
  std::int64_t lowest_ = 0;
  std::vector<Entry> pool_;
};

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// Finds pairs of accesses to the same bytes that nothing orders. It needs both accesses to happen
// in a run, but not in the harmful order: ordering is decided by vector clocks, not by who came
// first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/fakecuda/simulated_memory.h"
#include "tests/fakecuda/vector_clock.h"

namespace commfuse::fake {

/// Those of values wait and write 32-bit counters. Among themselves they never race.
enum class AccessKind : std::uint8_t { read, write, value_wait, value_write };

struct Access {
  AccessKind kind = AccessKind::read;
  Range range;
  Moment moment;
  std::uint64_t op = 0;  // who, for the report
};

class RaceDetector {
 public:
  /// `describe` names an op: "rank 0 stream send1 copy".
  explicit RaceDetector(std::function<std::string(std::uint64_t op)> describe);

  /// Checks an access by somebody with the clock `now`, which covers the access's own moment, and
  /// remembers it. Throws Finding (race) that names both ops and the bytes.
  void check(const Allocation& allocation, const Access& access, const VectorClock& now);

  /// Forgets what `covered_by_all` covers: nothing that is still to come can race with it.
  void forget(const VectorClock& covered_by_all);

  /// Accesses that are remembered; one of several pages counts for each.
  [[nodiscard]] std::size_t size() const;

 private:
  struct Record {
    AccessKind kind;
    std::size_t begin;
    std::size_t end;
    Moment moment;
    std::uint64_t op;
  };
  /// Records of an allocation by the pages that they touch, so that an access meets few others.
  using Pages = std::unordered_map<std::size_t, std::vector<Record>>;
  void check_page(const Allocation& allocation, std::vector<Record>& page, const Record& fresh,
                  const VectorClock& now) const;
  [[nodiscard]] std::string report(const Allocation& allocation, const Record& earlier,
                                   const Record& later) const;

  std::function<std::string(std::uint64_t)> describe_;
  std::unordered_map<const Allocation*, Pages> records_;
};

}  // namespace commfuse::fake

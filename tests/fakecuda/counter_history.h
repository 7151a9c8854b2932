// SPDX-License-Identifier: Apache-2.0
// The values that 32-bit counters in memory have had, and what each write knew. A wait learns only
// what the earliest write that satisfies it knew: it may have ended at that one, however many came
// after. Learning from later writes would hide epochs that are off by one.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tests/fakecuda/vector_clock.h"

namespace commfuse::fake {

enum class Compare : std::uint8_t { greater_equal, equal };

/// greater_equal is cyclic: (int32)(value - wanted) >= 0.
[[nodiscard]] bool satisfies(std::uint32_t value, Compare compare, std::uint32_t wanted);

/// One value of a counter. The first has moment 0 and an empty clock.
struct CounterWrite {
  std::uint32_t value = 0;
  Moment moment;
  VectorClock clock;
  std::int64_t time_ns = 0;
};

class CounterHistory {
 public:
  /// A value write to `address`, which held `before`. If that is not what the last value write
  /// left, something else wrote the counter since, and a new history begins with it.
  void write(const void* address, std::uint32_t before, CounterWrite write);

  /// The earliest write that may have ended a wait by somebody with the clock `now`: not one that
  /// was overwritten before. Requires that the value `there` satisfies the wait.
  [[nodiscard]] CounterWrite earliest(const void* address, std::uint32_t there, Compare compare,
                                      std::uint32_t wanted, const VectorClock& now) const;

  /// Drops values that were overwritten before whatever is still to come.
  void forget(const VectorClock& covered_by_all);

 private:
  std::map<const void*, std::vector<CounterWrite>> counters_;
};

}  // namespace commfuse::fake

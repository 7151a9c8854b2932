// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/counter_history.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

namespace commfuse::fake {
namespace {

/// The last write that the clock covers; the first one has moment 0, so there is one.
std::size_t last_covered(std::span<const CounterWrite> writes, const VectorClock& clock) {
  std::size_t last = writes.size() - 1;
  while (last > 0 && !clock.covers(writes[last].moment)) --last;
  return last;
}

}  // namespace

bool satisfies(std::uint32_t value, Compare compare, std::uint32_t wanted) {
  if (compare == Compare::equal) return value == wanted;
  return static_cast<std::int32_t>(value - wanted) >= 0;
}

void CounterHistory::write(const void* address, std::uint32_t before, CounterWrite write) {
  std::vector<CounterWrite>& writes = counters_[address];
  if (writes.empty() || writes.back().value != before) writes.assign(1, {before, {}, {}, 0});
  writes.push_back(std::move(write));
}

CounterWrite CounterHistory::earliest(const void* address, std::uint32_t there, Compare compare,
                                      std::uint32_t wanted, const VectorClock& now) const {
  const auto counter = counters_.find(address);
  if (counter == counters_.end() || counter->second.back().value != there) {
    return {there, {}, {}, 0};
  }
  const std::span<const CounterWrite> writes = counter->second;
  const auto found = std::ranges::find_if(
      writes.subspan(last_covered(writes, now)),
      [&](const CounterWrite& write) { return satisfies(write.value, compare, wanted); });
  return *found;
}

void CounterHistory::forget(const VectorClock& covered_by_all) {
  for (auto& [address, writes] : counters_) {
    const std::size_t kept = last_covered(writes, covered_by_all);
    writes.erase(writes.begin(), writes.begin() + static_cast<std::ptrdiff_t>(kept));
    if (kept > 0) writes.front().moment = {};
  }
}

}  // namespace commfuse::fake

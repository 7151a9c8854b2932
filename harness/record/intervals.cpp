// SPDX-License-Identifier: Apache-2.0
#include "harness/record/intervals.h"

#include <algorithm>

namespace commfuse {

std::vector<Interval> union_of(std::vector<Interval> intervals) {
  const auto earlier = [](const Interval& a, const Interval& b) { return a.begin < b.begin; };
  // Lanes run in order, so most lists arrive sorted.
  if (!std::is_sorted(intervals.begin(), intervals.end(), earlier)) {
    std::sort(intervals.begin(), intervals.end(), earlier);
  }
  std::size_t kept = 0;
  for (const Interval& next : intervals) {
    if (next.end <= next.begin) continue;
    if (kept > 0 && next.begin <= intervals[kept - 1].end) {
      intervals[kept - 1].end = std::max(intervals[kept - 1].end, next.end);
    } else {
      intervals[kept++] = next;
    }
  }
  intervals.resize(kept);
  return intervals;
}

std::int64_t length(std::span<const Interval> disjoint) {
  std::int64_t total = 0;
  for (const Interval& interval : disjoint) total += interval.end - interval.begin;
  return total;
}

std::vector<Interval> intersection(std::span<const Interval> a, std::span<const Interval> b) {
  std::vector<Interval> common;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    const Interval both{std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)};
    if (both.begin < both.end) common.push_back(both);
    if (a[i].end < b[j].end) {
      ++i;
    } else {
      ++j;
    }
  }
  return common;
}

}  // namespace commfuse

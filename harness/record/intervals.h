// SPDX-License-Identifier: Apache-2.0
// Interval arithmetic over [begin, end) in nanoseconds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace commfuse {

struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// Sorted, disjoint, non-empty intervals covering the same points.
std::vector<Interval> union_of(std::vector<Interval> intervals);
std::int64_t length(std::span<const Interval> disjoint);
/// Both arguments sorted and disjoint, as union_of gives them.
std::vector<Interval> intersection(std::span<const Interval> a, std::span<const Interval> b);

}  // namespace commfuse

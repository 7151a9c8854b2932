// SPDX-License-Identifier: Apache-2.0
#include "harness/record/intervals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bitset>
#include <random>

namespace commfuse {

void PrintTo(const Interval& interval, std::ostream* out) {
  *out << '[' << interval.begin << ", " << interval.end << ')';
}

namespace {

using Intervals = std::vector<Interval>;

TEST(Intervals, UnionMergesWhatOverlapsOrTouches) {
  EXPECT_EQ(union_of({{5, 9}, {1, 3}, {3, 4}, {7, 12}}), (Intervals{{1, 4}, {5, 12}}));
}

TEST(Intervals, UnionKeepsTheLongerOfNestedOnes) {
  EXPECT_EQ(union_of({{0, 10}, {2, 3}, {4, 5}}), (Intervals{{0, 10}}));
}

TEST(Intervals, UnionDropsEmptyAndReversedOnes) {
  EXPECT_EQ(union_of({{4, 4}, {9, 2}}), Intervals{});
  EXPECT_EQ(union_of({}), Intervals{});
  EXPECT_EQ(union_of({{1, 2}, {5, 5}, {9, 3}, {5, 6}}), (Intervals{{1, 2}, {5, 6}}));
}

TEST(Intervals, LengthAddsUp) {
  EXPECT_EQ(length(Intervals{{1, 4}, {5, 12}}), 10);
  EXPECT_EQ(length(Intervals{}), 0);
}

TEST(Intervals, IntersectionOfListsAndWithNothing) {
  EXPECT_EQ(intersection(Intervals{{0, 4}, {6, 10}}, Intervals{{2, 7}, {9, 20}}),
            (Intervals{{2, 4}, {6, 7}, {9, 10}}));
  EXPECT_EQ(intersection(Intervals{{0, 4}}, Intervals{{4, 5}}), Intervals{});
  EXPECT_EQ(intersection(Intervals{{0, 4}}, Intervals{}), Intervals{});
}

constexpr std::size_t kPoints = 64;
using Points = std::bitset<kPoints>;

Points points_of(const Intervals& intervals) {
  Points points;
  for (const Interval& interval : intervals) {
    for (std::int64_t i = interval.begin; i < interval.end; ++i) {
      points.set(static_cast<std::size_t>(i));
    }
  }
  return points;
}

bool sorted_and_disjoint(const Intervals& intervals) {
  return std::ranges::adjacent_find(intervals, [](const Interval& a, const Interval& b) {
           return a.end >= b.begin;
         }) == intervals.end();
}

TEST(Intervals, AgreeWithSetsOfPoints) {
  std::mt19937 random(7);
  std::uniform_int_distribution<std::int64_t> point(0, kPoints);
  std::uniform_int_distribution<int> count(0, 8);
  const auto draw = [&] {
    Intervals drawn;
    for (int i = count(random); i > 0; --i) drawn.push_back({point(random), point(random)});
    return drawn;
  };
  for (int round = 0; round < 2000; ++round) {
    const Intervals a = draw();
    const Intervals b = draw();
    const Intervals ua = union_of(a);
    const Intervals ub = union_of(b);
    ASSERT_TRUE(sorted_and_disjoint(ua));
    ASSERT_EQ(points_of(ua), points_of(a));
    ASSERT_EQ(length(ua), static_cast<std::int64_t>(points_of(a).count()));
    ASSERT_EQ(points_of(intersection(ua, ub)), points_of(a) & points_of(b));
  }
}

}  // namespace
}  // namespace commfuse

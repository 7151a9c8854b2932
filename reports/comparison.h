// SPDX-License-Identifier: Apache-2.0
// Two sets of launches, row by row. The statistics are of launches, each with its median time:
// within one launch iterations agree far better than launches do (case B7), so they prove nothing.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "reports/launch_set.h"
#include "reports/ratio_interval.h"

namespace commfuse {

struct ComparisonRules {
  double alpha = 0.01;           // of false discoveries among all rows
  double minimum_effect = 0.03;  // share of the time below which a change does not matter
  std::size_t fewest_launches = 5;
};

enum class Verdict : std::uint8_t {
  same,  // no change that matters
  faster,
  slower,
  unclear,  // too few launches or too much noise to tell
  wrong,    // a launch of b has a wrong result, or failed
};
std::string_view name_of(Verdict verdict);

struct ComparedRow {
  std::string id;
  std::size_t launches_a = 0, launches_b = 0;  // with a time
  double time_a = 0, time_b = 0;               // medians over launches, in ns
  std::optional<RatioInterval> ratio;          // b / a, at confidence 1 - alpha
  double false_discovery_rate = 1;             // of calling the sides different
  double probability_larger = 0.5;             // size of the effect: of b taking longer than a
  Verdict verdict = Verdict::unclear;
  std::string reason;  // of wrong and unclear
};

/// Rows that cannot be compared, each with why.
struct IncomparableRow {
  enum class Why : std::uint8_t { added, removed, unit, environment, clock };
  std::string id;
  Why why = Why::added;
  std::string detail;  // "libraries.blas: OpenBLAS 0.3.21, OpenBLAS 0.3.28"
};
std::string_view name_of(IncomparableRow::Why why);

struct Comparison {
  std::vector<ComparedRow> rows;  // by id
  std::vector<IncomparableRow> incomparable;
  std::size_t skipped = 0;  // rows that no launch of either side could run
};

/// Rows of a differing environment are compared all the same, and listed beside.
Comparison compare_launches(const Launches& a, const Launches& b, const ComparisonRules& rules);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// A comparison in words.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "reports/comparison.h"

namespace commfuse {

/// What stands above a comparison.
struct ComparedSides {
  std::string a, b;  // as given
  std::size_t launches_a = 0, launches_b = 0;
};

/// A line per row, those that matter first; then what could not be compared, and one line that sums
/// it up. Segments of ids that all rows share stand once, above.
std::string comparison_text(const Comparison& comparison, const ComparedSides& sides,
                            const ComparisonRules& rules);
/// {schema, a, b, rules, rows, incomparable, skipped}.
nlohmann::ordered_json comparison_json(const Comparison& comparison, const ComparedSides& sides,
                                       const ComparisonRules& rules);
/// "12 rows: 1 SLOWER, 10 SAME, 1 UNCLEAR; 1 removed; 2 skipped on both sides".
std::string comparison_summary(const Comparison& comparison);

}  // namespace commfuse

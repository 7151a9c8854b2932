// SPDX-License-Identifier: Apache-2.0
// Taking option values apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace commfuse {

/// Items between separators; empty items are kept, so that the caller can complain about them.
std::vector<std::string> split(std::string_view text, char separator);

/// A list of counts and ranges: "128,1K,4K:64K:*2,10:30:+10" (first:last:step, last included if it
/// is met). K, M = 1024, 1024^2. Duplicates are dropped. Throws UsageError naming `what`.
std::vector<std::int32_t> parse_counts(std::string_view text, std::string_view what);

/// A number with a unit from "name = factor" pairs: parse_quantity("2GB/s", kBandwidthUnits, ...).
/// Throws UsageError listing the units.
struct Unit {
  std::string_view name;
  double factor;
};
double parse_quantity(std::string_view text, const std::vector<Unit>& units, std::string_view what);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/option_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "suite/error.h"
#include "suite/shape.h"

namespace commfuse {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> items;
  while (true) {
    const std::size_t end = text.find(separator);
    items.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return items;
    text.remove_prefix(end + 1);
  }
}

namespace {

constexpr std::size_t kMostValues = 1000;  // a step of +1 over millions is a slip of the hand

std::vector<std::int32_t> parse_range(std::string_view text, std::string_view what) {
  const std::vector<std::string> items = split(text, ':');
  if (items.size() == 1) return {parse_count(items[0], what)};
  if (items.size() != 3 || items[2].size() < 2 || (items[2][0] != '*' && items[2][0] != '+')) {
    throw UsageError(fmt::format(
        "{} takes a count or first:last:*factor or first:last:+step, got '{}'", what, text));
  }
  const std::int64_t first = parse_count(items[0], what);
  const std::int64_t last = parse_count(items[1], what);
  const bool multiply = items[2][0] == '*';
  const std::int64_t step = parse_count(items[2].substr(1), what);
  if (first > last || (multiply && step < 2)) {
    throw UsageError(fmt::format("{} range '{}' does not go up", what, text));
  }
  std::vector<std::int32_t> values;
  for (std::int64_t value = first; value <= last; value = multiply ? value * step : value + step) {
    values.push_back(static_cast<std::int32_t>(value));
    if (values.size() > kMostValues) {
      throw UsageError(fmt::format("{} range '{}' has over {} values", what, text, kMostValues));
    }
  }
  return values;
}

}  // namespace

std::vector<std::int32_t> parse_counts(std::string_view text, std::string_view what) {
  std::vector<std::int32_t> values;
  for (const std::string& item : split(text, ',')) {
    for (const std::int32_t value : parse_range(item, what)) {
      if (std::ranges::find(values, value) == values.end()) values.push_back(value);
    }
  }
  return values;
}

double parse_quantity(std::string_view text, const std::vector<Unit>& units,
                      std::string_view what) {
  const std::string owned(text);
  char* end = nullptr;
  const double number = std::strtod(owned.c_str(), &end);
  const std::string_view unit(end);
  for (const Unit& candidate : units) {
    if (end != owned.c_str() && unit == candidate.name && std::isfinite(number) && number >= 0) {
      return number * candidate.factor;
    }
  }
  std::vector<std::string_view> names;
  for (const Unit& candidate : units) {
    if (!candidate.name.empty()) names.push_back(candidate.name);
  }
  throw UsageError(names.empty() ? fmt::format("{} takes a plain number, got '{}'", what, text)
                                 : fmt::format("{} takes a number with one of {}, got '{}'", what,
                                               fmt::join(names, ", "), text));
}

}  // namespace commfuse

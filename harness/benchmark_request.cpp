// SPDX-License-Identifier: Apache-2.0
#include "harness/benchmark_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "suite/error.h"

namespace commfuse {
namespace {

constexpr std::string_view kPrefix = "--benchmark_";

std::string value_of(const std::vector<std::string>& flags, std::string_view name) {
  const std::string start = fmt::format("{}{}=", kPrefix, name);
  std::string value;
  for (const std::string& flag : flags) {
    if (flag.starts_with(start)) value = flag.substr(start.size());
  }
  return value;
}

bool has(const std::vector<std::string>& flags, std::string_view name) {
  const std::string flag = fmt::format("{}{}", kPrefix, name);
  return std::ranges::any_of(flags, [&](const std::string& given) {
    return given == flag ||
           (given.starts_with(flag + "=") && !given.ends_with("=false") && !given.ends_with("=0"));
  });
}

/// Every value of a flag is one of `valid` (any text but none, if that is empty). Only switches may
/// stand without a value.
void check_value(const std::vector<std::string>& flags, std::string_view name,
                 std::string_view valid) {
  const std::string flag = fmt::format("{}{}", kPrefix, name);
  const bool is_switch = valid.find("true") != std::string_view::npos;
  for (const std::string& given : flags) {
    if (given == flag && is_switch) continue;
    if (given != flag && !given.starts_with(flag + "=")) continue;
    const std::string value = given == flag ? "" : given.substr(flag.size() + 1);
    if (value.empty()) throw UsageError(fmt::format("{} takes =VALUE", flag));
    const bool known =
        fmt::format(" {} ", valid).find(fmt::format(" {} ", value)) != std::string::npos;
    if (!valid.empty() && !known) {
      throw UsageError(fmt::format("{} '{}' is unknown; valid: {}", flag, value, valid));
    }
  }
}

}  // namespace

BenchmarkRequest::BenchmarkRequest(std::vector<std::string> given)
    : flags(std::move(given)),
      filter(value_of(flags, "filter")),
      out(value_of(flags, "out")),
      list(has(flags, "list_tests")) {
  wanted = std::ranges::any_of(flags, [](const std::string& flag) {
    return !flag.starts_with("--benchmark_filter") && !flag.starts_with("--benchmark_list_tests") &&
           !flag.starts_with("--benchmark_color") && !flag.starts_with("--benchmark_context");
  });
  constexpr std::string_view kBool = "true false yes no 1 0";
  for (const auto& [name, valid] :
       std::initializer_list<std::pair<std::string_view, std::string_view>>{
           {"format", "console json csv"},
           {"out_format", "console json csv"},
           {"time_unit", "ns us ms s"},
           {"color", "auto true false yes no 1 0"},
           {"list_tests", kBool},
           {"counters_tabular", kBool},
           {"report_aggregates_only", kBool},
           {"display_aggregates_only", kBool}}) {
    check_value(flags, name, valid);
  }
  for (const std::string_view name : {"filter", "out", "context"}) check_value(flags, name, "");
}

}  // namespace commfuse

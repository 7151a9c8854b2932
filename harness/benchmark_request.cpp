// SPDX-License-Identifier: Apache-2.0
#include "harness/benchmark_request.h"

#include <fmt/format.h>

#include <algorithm>
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
  for (const auto& [name, valid] :
       {std::pair{"format", "console json csv"}, std::pair{"out_format", "console json csv"},
        std::pair{"time_unit", "ns us ms s"}}) {
    const std::string value = value_of(flags, name);
    if (!value.empty() &&
        fmt::format(" {} ", valid).find(fmt::format(" {} ", value)) == std::string::npos) {
      throw UsageError(
          fmt::format("--benchmark_{} '{}' is unknown; valid: {}", name, value, valid));
    }
  }
}

}  // namespace commfuse

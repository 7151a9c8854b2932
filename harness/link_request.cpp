// SPDX-License-Identifier: Apache-2.0
#include "harness/link_request.h"

#include <fmt/format.h>

#include "harness/option_values.h"
#include "suite/error.h"

namespace commfuse {
namespace {

// Beyond these the times of a transfer leave what integer nanoseconds hold.
constexpr double kSlowest = 1e3;
constexpr double kFastest = 1e15;
constexpr double kLongest = 10;

}  // namespace

LinkRequest parse_link(std::string_view text) {
  LinkRequest link;
  link.text = text;
  if (text == "unlimited") return link;
  if (text.starts_with("auto:")) {
    link.auto_ratio = parse_quantity(text.substr(5), {{"", 1.0}}, "--link auto:R");
    if (link.auto_ratio < 0.01 || link.auto_ratio > 100) {
      throw UsageError(
          fmt::format("--link auto:R takes R from 0.01 to 100, got '{}'", text.substr(5)));
    }
    return link;
  }
  const auto parts = split(text, ',');
  if (parts.size() != 2) {
    throw UsageError(fmt::format(
        "--link takes bandwidth,latency (2GB/s,20us), auto:R or unlimited, got '{}'", text));
  }
  link.bytes_per_second = parse_quantity(
      parts[0], {{"GB/s", 1e9}, {"MB/s", 1e6}, {"KB/s", 1e3}, {"TB/s", 1e12}}, "--link bandwidth");
  link.latency_seconds = parse_quantity(
      parts[1], {{"us", 1e-6}, {"ns", 1e-9}, {"ms", 1e-3}, {"s", 1}}, "--link latency");
  if (link.bytes_per_second < kSlowest || link.bytes_per_second > kFastest) {
    throw UsageError(
        fmt::format("--link bandwidth must be from 1KB/s to 1000TB/s, got '{}'", parts[0]));
  }
  if (link.latency_seconds > kLongest) {
    throw UsageError(fmt::format("--link latency must be at most 10s, got '{}'", parts[1]));
  }
  return link;
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// Devices in words, for findings: which of them say the same.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/cuda/machine_facts.h"

namespace commfuse {

/// "0000:19:00.0 on node1"
inline std::string name_of(const SeenDevice& device) {
  return fmt::format("{} on {}", device.facts->pci, device.host);
}

/// "8 x TEXT", or, where texts differ, "2 x TEXT (0000:01:00.0 on a, ...); 1 x ...". Devices with
/// an empty text are left out.
template <class Describe>
std::string grouped(std::span<const SeenDevice> devices, Describe describe) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const SeenDevice& device : devices) {
    const std::string text = describe(device);
    if (text.empty()) continue;
    auto group = groups.begin();
    while (group != groups.end() && group->first != text) ++group;
    if (group == groups.end()) group = groups.insert(groups.end(), {text, {}});
    group->second.push_back(name_of(device));
  }
  std::vector<std::string> parts;
  for (const auto& [text, names] : groups) {
    const std::string which =
        groups.size() == 1 ? "" : fmt::format(" ({})", fmt::join(names, ", "));
    parts.push_back(fmt::format("{} x {}{}", names.size(), text, which));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

/// "0000:19:00.0 on node1: TEXT; ..." of the devices that have one.
template <class Describe>
std::string listed(std::span<const SeenDevice> devices, Describe describe) {
  std::vector<std::string> parts;
  for (const SeenDevice& device : devices) {
    const std::string text = describe(device);
    if (!text.empty()) parts.push_back(fmt::format("{}: {}", name_of(device), text));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

/// "unknown: REASON", of the first device of which nothing is shown; else "unknown to this driver".
inline std::string unknown(std::span<const SeenDevice> devices) {
  for (const SeenDevice& device : devices) {
    if (!device.facts->not_shown.empty()) return "unknown: " + device.facts->not_shown;
  }
  return "unknown: this driver or device does not tell";
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "reports/fingerprint.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace commfuse {
namespace {

constexpr std::array<std::string_view, 4> kLeftOut{"hosts", "load_average", "commit", "version"};

void add_facts(const nlohmann::ordered_json& value, const std::string& path,
               std::map<std::string, std::string>& facts) {
  if (!value.is_object()) {
    facts[path] = value.is_string() ? value.get<std::string>() : value.dump();
    return;
  }
  for (const auto& [key, member] : value.items()) {
    add_facts(member, path.empty() ? key : path + "." + key, facts);
  }
}

}  // namespace

std::map<std::string, std::string> fingerprint(const Record& record) {
  std::map<std::string, std::string> facts;
  if (!record.environment.is_object()) return facts;
  for (const auto& [key, value] : record.environment.items()) {
    if (std::ranges::find(kLeftOut, key) == kLeftOut.end()) add_facts(value, key, facts);
  }
  return facts;
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/record/row_facts.h"

#include <string>

namespace commfuse {

const nlohmann::ordered_json* value_at(const nlohmann::ordered_json& object, std::string_view group,
                                       std::string_view name) {
  const auto child = [](const nlohmann::ordered_json& parent, std::string_view key) {
    const bool there = parent.is_object() && parent.contains(key);
    return there ? &parent[std::string(key)] : nullptr;
  };
  const nlohmann::ordered_json* inner = child(object, group);
  return inner == nullptr ? nullptr : child(*inner, name);
}

std::optional<double> number_at(const nlohmann::ordered_json& object, std::string_view group,
                                std::string_view name) {
  const nlohmann::ordered_json* value = value_at(object, group, name);
  return value != nullptr && value->is_number() ? std::optional(value->get<double>())
                                                : std::nullopt;
}

std::optional<double> metric(const Record& record, std::string_view name) {
  const auto found = record.metrics.find(std::string(name));
  if (found == record.metrics.end()) return std::nullopt;
  return found->second.value;
}

bool has_speed(const Record& record) {
  return record.outcome == Outcome::ok && (record.check || record.clock == Clock::modelled) &&
         metric(record, "time");
}

}  // namespace commfuse

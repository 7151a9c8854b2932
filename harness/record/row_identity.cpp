// SPDX-License-Identifier: Apache-2.0
#include "harness/record/row_identity.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace commfuse {
namespace {

using Fact = std::pair<std::string, std::string>;  // name, value; a value may be empty

std::string text_of(const nlohmann::ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string model_of(const Record& record) {
  const auto found = record.shape.find("model");
  return found == record.shape.end() ? "" : text_of(*found);
}

/// Names of sizes that a preset's name does not tell.
std::set<std::string> sizes_to_list(std::span<const Record> records) {
  std::set<std::string> listed{"model", "tokens"};
  std::map<std::pair<std::string, std::string>, std::string> first_value;  // by model and size
  for (const Record& record : records) {
    const std::string model = model_of(record);
    const bool preset = !model.empty() && model != "custom";
    for (const auto& [size, value] : record.shape.items()) {
      const auto [first, added] = first_value.try_emplace({model, size}, text_of(value));
      if (!preset || first->second != text_of(value)) listed.insert(size);
    }
  }
  return listed;
}

/// The modelled machine; empty for one that was there.
std::string machine_of(const Record& record) {
  const auto found =
      record.details.is_object() ? record.details.find("machine") : record.details.end();
  return found != record.details.end() && found->is_object() ? found->value("name", "") : "";
}

/// What a schedule is compared under; rows that differ here are no rows of one comparison.
std::vector<Fact> case_facts(const Record& record, const std::set<std::string>& sizes) {
  std::vector<Fact> facts{{"workload", record.workload}};
  for (const auto& [size, value] : record.shape.items()) {
    if (sizes.contains(size)) facts.emplace_back(size, text_of(value));
  }
  facts.emplace_back("ranks", fmt::format("{}", record.ranks));
  facts.emplace_back("mesh", record.mesh);
  facts.emplace_back("dtype", record.dtype);
  facts.emplace_back("pass", record.pass);
  facts.emplace_back("machine", machine_of(record));
  facts.emplace_back("link", record.link);
  return facts;
}

/// "hot" where nothing is said: what a row is unless it says otherwise.
std::string cache_of(const Record& record) {
  const auto found =
      record.details.is_object() ? record.details.find("cache") : record.details.end();
  return found == record.details.end() ? "hot" : found->value("mode", "hot");
}

/// What should be equal where a difference is put down to the schedule.
std::vector<Fact> control_facts(const Record& record) {
  return {{"backend", record.backend},
          {"transport", record.transport},
          {"mode", record.mode},
          {"clock", std::string(name_of(record.clock))},
          {"cache", cache_of(record)}};
}

std::string in_words(const Fact& fact) {
  const auto& [name, value] = fact;
  if (value.empty()) return fmt::format("no {}", name);
  if (name == "dtype") return value;
  if (name == "ranks" || name == "tokens" || name == "layers") {
    return fmt::format("{} {}", value, value == "1" ? name.substr(0, name.size() - 1) : name);
  }
  return fmt::format("{} {}", name, value);
}

bool contains(const std::vector<Fact>& facts, const Fact& fact) {
  return std::ranges::find(facts, fact) != facts.end();
}

std::vector<Fact> keep_common(const std::vector<Fact>& facts, const std::vector<Fact>& others) {
  std::vector<Fact> common;
  for (const Fact& fact : facts) {
    if (contains(others, fact)) common.push_back(fact);
  }
  return common;
}

std::vector<std::string> differing_controls(const std::vector<const Record*>& rows) {
  std::vector<std::string> differing;
  for (std::size_t i = 0; i < control_facts(*rows.front()).size(); ++i) {
    std::vector<std::string> values;
    for (const Record* row : rows) {
      const std::string value = control_facts(*row)[i].second;
      if (std::ranges::find(values, value) == values.end()) values.push_back(value);
    }
    if (values.size() > 1) {
      differing.push_back(
          fmt::format("{} ({})", control_facts(*rows.front())[i].first, fmt::join(values, ", ")));
    }
  }
  return differing;
}

std::string heading_of(const std::vector<Fact>& facts, const std::vector<Fact>& constant) {
  std::vector<std::string> words;
  for (const Fact& fact : facts) {
    if (!contains(constant, fact)) words.push_back(in_words(fact));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

struct Spec {
  std::string base;
  std::vector<std::string> parameters;
};

Spec split(std::string_view impl) {
  Spec spec;
  while (true) {
    const std::size_t colon = impl.find(':');
    const std::string part(impl.substr(0, colon));
    if (spec.base.empty()) {
      spec.base = part;
    } else {
      spec.parameters.push_back(part);
    }
    if (colon == std::string_view::npos) return spec;
    impl.remove_prefix(colon + 1);
  }
}

/// "n=4": short, and what a reader looks for; it stays in the row.
bool is_number(std::string_view parameter) {
  const std::size_t equals = parameter.find('=');
  return equals != std::string_view::npos && equals + 1 < parameter.size() &&
         parameter.find_first_not_of("0123456789.", equals + 1) == std::string_view::npos;
}

std::string key_of(std::string_view parameter) {
  return std::string(parameter.substr(0, parameter.find('=')));
}

}  // namespace

RowIdentity identify(std::span<const Record> records) {
  RowIdentity identity;
  if (records.empty()) return identity;
  const std::set<std::string> sizes = sizes_to_list(records);
  std::vector<Fact> common = case_facts(records.front(), sizes);
  std::vector<Fact> common_controls = control_facts(records.front());
  std::vector<std::vector<Fact>> group_facts;
  for (const Record& record : records) {
    const std::vector<Fact> facts = case_facts(record, sizes);
    common = keep_common(common, facts);
    common_controls = keep_common(common_controls, control_facts(record));
    const auto known = std::ranges::find(group_facts, facts);
    if (known == group_facts.end()) {
      group_facts.push_back(facts);
      identity.groups.push_back({"", {&record}, {}});
    } else {
      const auto index = static_cast<std::size_t>(known - group_facts.begin());
      identity.groups[index].rows.push_back(&record);
    }
  }
  for (const std::vector<Fact>& facts : {common, common_controls}) {
    for (const Fact& fact : facts) {
      const bool usual = fact == Fact{"cache", "hot"};
      if (!fact.second.empty() && !usual) identity.constant.push_back(in_words(fact));
    }
  }
  for (std::size_t i = 0; i < group_facts.size(); ++i) {
    RowGroup& group = identity.groups[i];
    group.heading = heading_of(group_facts[i], common);
    group.controls_differ = differing_controls(group.rows);
  }
  return identity;
}

ImplementationNames::ImplementationNames(std::span<const Record> records) {
  std::map<std::pair<std::string, std::string>, std::string> agreed;  // by implementation and key
  std::set<std::pair<std::string, std::string>> varying;
  std::set<std::string> bare;
  for (const Record& record : records) {
    const Spec spec = split(record.impl);
    if (spec.parameters.empty()) bare.insert(spec.base);
    for (const std::string& parameter : spec.parameters) {
      const std::pair key{spec.base, key_of(parameter)};
      const auto [first, added] = agreed.try_emplace(key, parameter);
      if (first->second != parameter) varying.insert(key);
      if (added) constant_[spec.base].push_back(parameter);
    }
  }
  for (auto& [base, parameters] : constant_) {
    std::erase_if(parameters, [&, name = base](const std::string& parameter) {
      return is_number(parameter) || varying.contains({name, key_of(parameter)});
    });
  }
  // "plain" beside "plain:collective=symmetric" would become two rows of one name.
  for (const Record& record : records) {
    const Spec spec = split(record.impl);
    const bool nothing_left = std::ranges::all_of(
        spec.parameters,
        [&](const std::string& parameter) { return is_constant(spec.base, parameter); });
    if (!spec.parameters.empty() && bare.contains(spec.base) && nothing_left) {
      constant_.erase(spec.base);
    }
  }
  std::erase_if(constant_, [](const auto& entry) { return entry.second.empty(); });
}

bool ImplementationNames::is_constant(std::string_view base, std::string_view parameter) const {
  const auto found = constant_.find(base);
  return found != constant_.end() &&
         std::ranges::find(found->second, parameter) != found->second.end();
}

std::string ImplementationNames::brief(std::string_view impl) const {
  const Spec spec = split(impl);
  std::string brief = spec.base;
  for (const std::string& parameter : spec.parameters) {
    if (!is_constant(spec.base, parameter)) brief += ':' + parameter;
  }
  return brief;
}

std::vector<std::string> ImplementationNames::constant_parameters() const {
  std::vector<std::string> lines;
  for (const auto& [base, parameters] : constant_) {
    lines.push_back(fmt::format("{}: {}", base, fmt::join(parameters, ", ")));
  }
  return lines;
}

}  // namespace commfuse

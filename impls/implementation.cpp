// SPDX-License-Identifier: Apache-2.0
#include "impls/implementation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "suite/error.h"

namespace commfuse {

// Each in the file of its name.
Implementation make_plain(const Parameters& parameters, const Workload& workload);
Implementation make_sliced(const Parameters& parameters, const Workload& workload);
Implementation make_bulk(const Parameters& parameters, const Workload& workload);
Implementation make_commfuse(const Parameters& parameters, const Workload& workload);
Implementation make_compute_only(const Parameters& parameters, const Workload& workload);
Implementation make_comm_only(const Parameters& parameters, const Workload& workload);

namespace {

constexpr std::array kImplementations{
    ImplementationEntry{"plain", "one blocking collective, one whole compute op, no overlap",
                        "collective=default|registered|symmetric|copy_engine", &make_plain},
    ImplementationEntry{"sliced", "n parts; one travels while its neighbour is computed",
                        "n=<parts>:axis=tokens|features", &make_sliced},
    ImplementationEntry{"bulk", "sliced:n=1; whole collectives beside independent compute", "",
                        &make_bulk},
    ImplementationEntry{"commfuse", "one transfer per peer slice under the compute of another",
                        "order=ring|direct:m=<parts>:accumulate=epilogue|add|once", &make_commfuse},
    ImplementationEntry{"compute_only", "bound: whole ops, no communication", "",
                        &make_compute_only},
    ImplementationEntry{"comm_only", "bound: the collectives one after the other, no compute", "",
                        &make_comm_only},
};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  if (text.empty()) return parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

const ImplementationEntry& find_entry(std::string_view name) {
  const auto found =
      std::find_if(kImplementations.begin(), kImplementations.end(),
                   [name](const ImplementationEntry& entry) { return entry.name == name; });
  if (found != kImplementations.end()) return *found;
  std::string valid;
  for (const ImplementationEntry& entry : kImplementations) {
    valid += fmt::format("{}{}", valid.empty() ? "" : ", ", entry.name);
  }
  const bool parameter = name.find('=') != std::string_view::npos;
  throw UsageError(fmt::format("unknown implementation '{}'; valid: {}{}", name, valid,
                               parameter ? "; parameters follow a colon, as in commfuse:m=4" : ""));
}

/// Checks a value against its declaration in the table: "n=<parts>" or "axis=tokens|features".
void check_parameter(const ImplementationEntry& entry, std::string_view key,
                     std::string_view value) {
  for (const std::string_view declared : split(entry.parameters, ':')) {
    const std::size_t equals = declared.find('=');
    if (declared.substr(0, equals) != key) continue;
    const std::string_view values = declared.substr(equals + 1);
    if (values.starts_with('<')) {
      parse_count(value, fmt::format("{}:{}", entry.name, key));
      return;
    }
    const std::vector<std::string_view> choices = split(values, '|');
    if (std::find(choices.begin(), choices.end(), value) != choices.end()) return;
    throw UsageError(fmt::format("{}: unknown {} '{}'; valid: {}", entry.name, key, value,
                                 fmt::join(choices, ", ")));
  }
  if (entry.parameters.empty()) {
    throw UsageError(fmt::format("{} takes no parameters, got '{}'", entry.name, key));
  }
  throw UsageError(fmt::format("{}: unknown parameter '{}'; valid: {}", entry.name, key,
                               fmt::join(split(entry.parameters, ':'), ", ")));
}

}  // namespace

std::span<const ImplementationEntry> implementations() { return kImplementations; }

Implementation make_implementation(std::string_view spec, const Workload& workload) {
  const std::vector<std::string_view> parts = split(spec, ':');
  const ImplementationEntry& entry = find_entry(parts.empty() ? spec : parts.front());
  Parameters parameters;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t equals = parts[i].find('=');
    if (equals == std::string_view::npos) {
      throw UsageError(fmt::format("{}: expected parameter=value, got '{}'", entry.name, parts[i]));
    }
    const std::string_view key = parts[i].substr(0, equals);
    const std::string_view value = parts[i].substr(equals + 1);
    check_parameter(entry, key, value);
    if (!parameters.emplace(key, value).second) {
      throw UsageError(fmt::format("{}: parameter '{}' is given twice", entry.name, key));
    }
  }
  return entry.make(parameters, workload);
}

void validate_implementation(std::string_view spec) { make_implementation(spec, Workload{}); }

std::string_view value_of(const Parameters& parameters, std::string_view key,
                          std::string_view fallback) {
  const auto found = parameters.find(key);
  return found == parameters.end() ? fallback : found->second;
}

std::int32_t count_of(const Parameters& parameters, std::string_view key, std::int32_t fallback) {
  const auto found = parameters.find(key);
  return found == parameters.end() ? fallback : parse_count(found->second, key);
}

bool is_local(const Stage& stage) { return !stage.gather && !stage.pieces && !outgoing(stage); }

std::int32_t local_parts(const Stage& stage, std::int32_t parts) {
  return stage.own_slice && stage.axis.divides(parts) ? parts : 1;
}

std::string unsupported_rows(const Stage& stage, std::string_view parameter, std::int32_t parts) {
  if (is_local(stage) || stage.own_slice || stage.axis.divides(parts)) return {};
  if (stage.axis.unit == 1) {
    return fmt::format("needs rows per rank divisible by {} ({}), got {}", parameter, parts,
                       stage.axis.rows);
  }
  return fmt::format("needs rows per rank divisible by unit x {} ({} x {}), got {}", parameter,
                     stage.axis.unit, parts, stage.axis.rows);
}

std::string unsupported(const Implementation& implementation, const Workload& workload) {
  for (const Stage& stage : workload.stages) {
    std::string reason = implementation.unsupported(stage);
    if (!reason.empty()) return reason;
  }
  return {};
}

Plan build_plan(const Implementation& implementation, const Workload& workload, std::int32_t rank) {
  PlanBuilder builder(workload, rank);
  for (std::size_t i = 0; i < workload.stages.size(); ++i) {
    builder.begin_stage(i);
    implementation.lower(workload.stages[i], builder);
  }
  std::vector<View> inputs;
  for (const Fill& fill : initial_data(workload, rank, implementation.portion)) {
    inputs.push_back(fill.view);
  }
  Plan plan = builder.take(std::move(inputs), required_outputs(workload, implementation.portion));
  plan.portion = implementation.portion;
  return plan;
}

std::vector<Plan> build_plans(const Implementation& implementation, const Workload& workload) {
  std::vector<Plan> plans;
  plans.reserve(static_cast<std::size_t>(workload.ranks));
  for (std::int32_t rank = 0; rank < workload.ranks; ++rank) {
    plans.push_back(build_plan(implementation, workload, rank));
  }
  return plans;
}

}  // namespace commfuse

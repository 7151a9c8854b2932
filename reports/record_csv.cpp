// SPDX-License-Identifier: Apache-2.0
#include "reports/record_csv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace commfuse {
namespace {

using MetricColumn = std::pair<std::string, std::string>;  // name, unit

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + '"';
}

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string member_of(const nlohmann::ordered_json& shape, const char* name) {
  if (!shape.is_object() || !shape.contains(name)) return "";
  const nlohmann::ordered_json& value = shape.at(name);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::vector<std::string> header(const std::set<MetricColumn>& metrics) {
  std::vector<std::string> names{"schema", "id",   "workload", "impl",    "model",   "tokens",
                                 "ranks",  "mesh", "dtype",    "pass",    "backend", "transport",
                                 "link",   "mode", "clock",    "outcome", "reason",  "started"};
  for (const auto& [name, unit] : metrics) names.push_back(fmt::format("{} [{}]", name, unit));
  return names;
}

std::vector<std::string> cells_of(const Record& record, const std::set<MetricColumn>& metrics) {
  std::vector<std::string> cells{std::to_string(kRecordSchema),
                                 record.id,
                                 record.workload,
                                 record.impl,
                                 member_of(record.shape, "model"),
                                 member_of(record.shape, "tokens"),
                                 std::to_string(record.ranks),
                                 record.mesh,
                                 record.dtype,
                                 record.pass,
                                 record.backend,
                                 record.transport,
                                 record.link,
                                 record.mode,
                                 std::string(name_of(record.clock)),
                                 std::string(name_of(record.outcome)),
                                 one_line(record.reason),
                                 record.time};
  for (const auto& [name, unit] : metrics) {
    const auto metric = record.metrics.find(name);
    const bool has = metric != record.metrics.end() && metric->second.unit == unit;
    cells.push_back(has ? fmt::format("{}", metric->second.value) : "");
  }
  return cells;
}

std::string line_of(const std::vector<std::string>& cells) {
  std::vector<std::string> texts;
  for (const std::string& cell : cells) texts.push_back(csv_cell(cell));
  return fmt::format("{}\n", fmt::join(texts, ","));
}

}  // namespace

std::string record_csv(std::span<const Record> records) {
  std::set<MetricColumn> metrics;
  for (const Record& record : records) {
    for (const auto& [name, metric] : record.metrics) metrics.emplace(name, metric.unit);
  }
  std::string text = line_of(header(metrics));
  for (const Record& record : records) text += line_of(cells_of(record, metrics));
  return text;
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "reports/comparison_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "harness/record/text_grid.h"
#include "reports/varying_segments.h"

namespace commfuse {
namespace {

constexpr int kComparisonSchema = 1;

/// What needs somebody's attention stands first.
constexpr std::array kOrder{Verdict::wrong, Verdict::slower, Verdict::unclear, Verdict::faster,
                            Verdict::same};

std::string milliseconds(double ns) { return ns > 0 ? fmt::format("{:.4g}", ns / 1e6) : ""; }

std::vector<std::string> cells_of(const ComparedRow& row, const std::string& name) {
  std::vector<std::string> cells{std::string(name_of(row.verdict))};
  if (row.ratio) {
    cells.push_back(fmt::format("{:.3f}", row.ratio->ratio));
    cells.push_back(fmt::format("{:.3f} to {:.3f}", row.ratio->low, row.ratio->high));
  } else {
    cells.insert(cells.end(), 2, "");
  }
  cells.push_back(milliseconds(row.time_a));
  cells.push_back(milliseconds(row.time_b));
  cells.push_back(fmt::format("{} / {}", row.launches_a, row.launches_b));
  cells.push_back(row.ratio ? fmt::format("{:.2g}", row.false_discovery_rate) : "");
  cells.push_back(row.ratio ? fmt::format("{:.2f}", row.probability_larger) : "");
  cells.push_back(row.reason.empty() ? name : fmt::format("{}: {}", name, row.reason));
  return cells;
}

TextGrid grid_of(const Comparison& comparison, const VaryingSegments& names) {
  using Align = TextGrid::Align;
  TextGrid grid;
  grid.add_column("verdict", "", Align::left);
  grid.add_column("B / A", "");
  grid.add_column("interval", "");
  grid.add_column("A", "ms");
  grid.add_column("B", "ms");
  grid.add_column("launches", "A / B");
  grid.add_column("fdr", "");
  grid.add_column("P(B > A)", "");
  grid.add_column("row", "", Align::left);
  for (const Verdict verdict : kOrder) {
    for (const ComparedRow& row : comparison.rows) {
      if (row.verdict == verdict) grid.add_row(cells_of(row, names.brief(row.id)));
    }
  }
  return grid;
}

/// Environments are alike in many rows: each difference once, with how many rows have it.
std::string incomparable_text(const Comparison& comparison, const VaryingSegments& names) {
  std::string text;
  std::map<std::string, std::size_t> environments;
  for (const IncomparableRow& row : comparison.incomparable) {
    if (row.why == IncomparableRow::Why::environment) {
      ++environments[row.detail];
    } else {
      text += fmt::format("{}: {}{}\n", name_of(row.why), names.brief(row.id),
                          row.detail.empty() ? "" : fmt::format(" ({})", row.detail));
    }
  }
  for (const auto& [detail, rows] : environments) {
    text += fmt::format("environment differs in {} rows: {}\n", rows, detail);
  }
  return text;
}

std::vector<std::string> ids_of(const Comparison& comparison) {
  std::vector<std::string> ids;
  for (const ComparedRow& row : comparison.rows) ids.push_back(row.id);
  for (const IncomparableRow& row : comparison.incomparable) ids.push_back(row.id);
  return ids;
}

}  // namespace

std::string comparison_summary(const Comparison& comparison) {
  std::vector<std::string> parts;
  for (const Verdict verdict : kOrder) {
    const auto count = std::ranges::count(comparison.rows, verdict, &ComparedRow::verdict);
    if (count > 0) parts.push_back(fmt::format("{} {}", count, name_of(verdict)));
  }
  std::string text =
      fmt::format("{} {}", comparison.rows.size(), comparison.rows.size() == 1 ? "row" : "rows");
  if (!parts.empty()) text += fmt::format(": {}", fmt::join(parts, ", "));
  std::map<std::string_view, std::size_t> whys;
  for (const IncomparableRow& row : comparison.incomparable) ++whys[name_of(row.why)];
  for (const auto& [why, count] : whys) text += fmt::format("; {} {}", count, why);
  if (comparison.skipped > 0) {
    text += fmt::format("; {} skipped on both sides", comparison.skipped);
  }
  return text;
}

std::string comparison_text(const Comparison& comparison, const ComparedSides& sides,
                            const ComparisonRules& rules) {
  const VaryingSegments names(ids_of(comparison));
  std::string text = fmt::format(
      "A {} ({} launches), B {} ({} launches)\n"
      "alpha {:g}, smallest change that counts {:g} %, at least {} launches a side\n",
      sides.a, sides.launches_a, sides.b, sides.launches_b, rules.alpha, 100 * rules.minimum_effect,
      rules.fewest_launches);
  if (!names.constant().empty()) text += fmt::format("{}\n", names.constant());
  if (!comparison.rows.empty()) {
    text += fmt::format(
        "\n{}\nTimes are medians over launches; interval: of B / A, bootstrap at {:g} %; fdr: "
        "false "
        "discovery rate (Mann-Whitney, Benjamini-Hochberg).\n",
        grid_of(comparison, names).text(), 100 * (1 - rules.alpha));
  }
  const std::string others = incomparable_text(comparison, names);
  if (!others.empty()) text += fmt::format("\n{}", others);
  return text + fmt::format("\n{}\n", comparison_summary(comparison));
}

nlohmann::ordered_json comparison_json(const Comparison& comparison, const ComparedSides& sides,
                                       const ComparisonRules& rules) {
  nlohmann::ordered_json json{{"schema", kComparisonSchema},
                              {"a", {{"name", sides.a}, {"launches", sides.launches_a}}},
                              {"b", {{"name", sides.b}, {"launches", sides.launches_b}}},
                              {"rules",
                               {{"alpha", rules.alpha},
                                {"minimum_effect", rules.minimum_effect},
                                {"fewest_launches", rules.fewest_launches}}},
                              {"rows", nlohmann::ordered_json::array()},
                              {"incomparable", nlohmann::ordered_json::array()},
                              {"skipped", comparison.skipped}};
  for (const ComparedRow& row : comparison.rows) {
    nlohmann::ordered_json entry{{"id", row.id},
                                 {"verdict", name_of(row.verdict)},
                                 {"launches_a", row.launches_a},
                                 {"launches_b", row.launches_b}};
    if (row.ratio) {
      entry["time_a_ns"] = row.time_a;
      entry["time_b_ns"] = row.time_b;
      entry["ratio"] = {
          {"value", row.ratio->ratio}, {"low", row.ratio->low}, {"high", row.ratio->high}};
      entry["false_discovery_rate"] = row.false_discovery_rate;
      entry["probability_larger"] = row.probability_larger;
    }
    if (!row.reason.empty()) entry["reason"] = row.reason;
    json["rows"].push_back(std::move(entry));
  }
  for (const IncomparableRow& row : comparison.incomparable) {
    json["incomparable"].push_back(
        {{"id", row.id}, {"why", name_of(row.why)}, {"detail", row.detail}});
  }
  return json;
}

}  // namespace commfuse

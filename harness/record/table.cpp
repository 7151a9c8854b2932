// SPDX-License-Identifier: Apache-2.0
#include "harness/record/table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/record/best_baseline.h"
#include "harness/record/layer_notes.h"
#include "harness/record/row_facts.h"
#include "harness/record/row_identity.h"
#include "harness/record/running_text.h"
#include "harness/record/table_legend.h"
#include "harness/record/text_grid.h"

namespace commfuse {
namespace {

constexpr double kClockTolerance = 0.01;  // between rows that are compared

enum class Quantity : std::uint8_t { time, percent, ratio, thousands };

/// A column of numbers. `waterfall` names its field of the printed waterfall, which comes before
/// the metric, so that the numbers of a row add up.
struct NumberColumn {
  std::string_view name;
  std::string_view unit;  // empty: the unit of times
  std::string_view metric;
  Quantity quantity = Quantity::time;
  std::string_view waterfall{};
  bool loss = false;  // hidden if 0 in every row
};

/// No metric of a record, but against the best baseline among the rows of its group.
constexpr std::string_view kOverBest = "speedup_best";
using SpeedUps = std::map<const Record*, double>;

constexpr std::array kNumbers{
    NumberColumn{"time", "", "time", Quantity::time, "t"},
    NumberColumn{"p95", "", "p95"},
    NumberColumn{"exposed", "% whole", "exposed_share", Quantity::percent},
    NumberColumn{"whole", "", "", Quantity::time, "t_whole"},
    NumberColumn{"head", "", "exposed_head", Quantity::time, "exposed_head", true},
    NumberColumn{"interior", "", "exposed_interior", Quantity::time, "exposed_interior", true},
    NumberColumn{"tail", "", "exposed_tail", Quantity::time, "exposed_tail", true},
    NumberColumn{"decomp", "", "decomposition", Quantity::time, "decomposition", true},
    NumberColumn{"accum", "", "accumulate", Quantity::time, "accumulate", true},
    NumberColumn{"contend", "", "contention", Quantity::time, "contention", true},
    NumberColumn{"last", "", "last_rank", Quantity::time, "last_rank", true},
    NumberColumn{"speedup", "x plain", "speedup_plain", Quantity::ratio},
    NumberColumn{"vs best", "ratio", kOverBest, Quantity::ratio},
    NumberColumn{"vs bound", "ratio", "distance", Quantity::ratio},
    NumberColumn{"hidden", "%", "hidden_share", Quantity::percent},
    NumberColumn{"skew", "ratio", "skew", Quantity::ratio},
    NumberColumn{"flops", "% peak", "flops_utilisation", Quantity::percent},
    NumberColumn{"mfu", "% peak", "mfu", Quantity::percent},
    NumberColumn{"tokens", "k/s", "tokens_per_s", Quantity::thousands},
};

// The columns before the numbers.
constexpr std::size_t kImpl = 0, kCheck = 1, kTransport = 2, kMode = 3, kClock = 4;
constexpr std::size_t kFirstNumber = 5;

std::optional<double> value_of(const Record& record, const NumberColumn& column) {
  if (column.metric == "p95") return number_at(record.details, "distribution", "p95");
  if (column.metric == "flops_utilisation" && metric(record, "mfu")) return std::nullopt;
  if (!column.waterfall.empty()) {
    if (const auto printed = number_at(record.details, "waterfall", column.waterfall)) {
      return printed;
    }
  }
  return metric(record, column.metric);
}

std::string check_text(const Record& record) {
  switch (record.outcome) {
    case Outcome::skipped:
      return "skipped";
    case Outcome::failed:
      return "failed";
    case Outcome::wrong:
      return record.check ? fmt::format("WRONG {}", record.check->wrong) : "WRONG";
    case Outcome::ok:
      break;
  }
  if (!record.check) return record.clock == Clock::modelled ? "ok plan" : "unchecked";
  return record.check->bound == "exact" ? "ok exact" : "ok bound";
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

/// Why a row has no speed.
std::string explanation(const Record& record) {
  if (record.outcome == Outcome::wrong && record.check && !record.check->first_wrong.empty()) {
    return fmt::format("{} (largest error {:.3g}, relative {:.3g})",
                       first_line(record.check->first_wrong), record.check->max_abs,
                       record.check->max_rel);
  }
  if (!record.reason.empty()) return first_line(record.reason);
  return record.outcome == Outcome::ok && !record.check ? "no speed without a check" : "";
}

struct TimeUnit {
  std::string_view name;
  double ns = 1;
  int decimals = 0;
};

/// One unit for all times, so that the losses of a row can be added by eye: by the longest time,
/// with four digits of the shortest.
TimeUnit time_unit(std::span<const Record> records) {
  double longest = 0;
  double shortest = 0;
  const bool only_bounds = std::ranges::none_of(records, [](const Record& record) {
    return has_speed(record) && record.impl != "comm_only";
  });
  for (const Record& record : records) {
    if (!has_speed(record) || (record.impl == "comm_only" && !only_bounds)) continue;
    const double time = *metric(record, "time");
    longest = std::max(longest, time);
    shortest = shortest == 0 ? time : std::min(shortest, time);
  }
  TimeUnit unit{"ns", 1, 0};
  if (longest >= 1e10) {
    unit = {"s", 1e9, 0};
  } else if (longest >= 1e6) {
    unit = {"ms", 1e6, 0};
  } else if (longest >= 1e3) {
    unit = {"us", 1e3, 0};
  }
  if (unit.ns > 1 && shortest > 0) {
    const double magnitude = std::floor(std::log10(shortest / unit.ns));
    unit.decimals = static_cast<int>(std::clamp(3 - magnitude, 0.0, 3.0));
  }
  return unit;
}

std::string rounded(double value, int decimals) {
  std::string text = fmt::format("{:.{}f}", value, decimals);
  const bool zero = text.find_first_not_of("-0.") == std::string::npos;
  return zero && text.front() == '-' ? text.substr(1) : text;
}

std::string number_text(std::optional<double> value, const NumberColumn& column,
                        const TimeUnit& unit) {
  if (!value) return "";
  switch (column.quantity) {
    case Quantity::time:
      return rounded(*value / unit.ns, unit.decimals);
    case Quantity::percent:
      return rounded(*value * 100, 1);
    case Quantity::ratio:
      return rounded(*value, 2);
    case Quantity::thousands:
      return rounded(*value / 1e3, *value >= 1e5 ? 0 : *value >= 1e4 ? 1 : *value >= 1e3 ? 2 : 3);
  }
  return "";
}

std::string bandwidth_text(double bytes_per_second) {
  return bytes_per_second >= 1e9 ? fmt::format("{:.2f} GB/s", bytes_per_second / 1e9)
                                 : fmt::format("{:.1f} MB/s", bytes_per_second / 1e6);
}

/// What comm_only says beside its time.
std::string communication_note(const Record& record) {
  std::vector<std::string> parts;
  if (const auto share = metric(record, "r_effective")) {
    parts.push_back(fmt::format("{:.3f} of compute_only", *share));
  }
  if (const auto rate = metric(record, "algbw")) {
    parts.push_back(fmt::format("algbw {}", bandwidth_text(*rate)));
  }
  if (const auto rate = metric(record, "busbw")) {
    parts.push_back(fmt::format("busbw {}", bandwidth_text(*rate)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<std::string> leading_cells(const Record& record, const ImplementationNames& names,
                                       bool grouped) {
  std::vector<std::string> cells(kFirstNumber);
  cells[kImpl] = (grouped ? "  " : "") + names.brief(record.impl);
  cells[kCheck] = check_text(record);
  cells[kTransport] = record.transport;
  cells[kMode] = record.mode;
  cells[kClock] = std::string(name_of(record.clock));
  return cells;
}

void add_row(TextGrid& grid, const Record& record, const ImplementationNames& names,
             const TimeUnit& unit, bool grouped, const SpeedUps& over_best) {
  std::vector<std::string> cells = leading_cells(record, names, grouped);
  if (!has_speed(record)) {
    grid.add_row_with_note(std::move(cells), explanation(record));
    return;
  }
  const bool bound_row = record.impl == "comm_only";
  for (const NumberColumn& column : kNumbers) {
    if (bound_row && column.metric != "time" && column.metric != "p95") break;
    const auto best = over_best.find(&record);
    const std::optional<double> value = column.metric != kOverBest ? value_of(record, column)
                                        : best == over_best.end()  ? std::nullopt
                                                                   : std::optional(best->second);
    cells.push_back(number_text(value, column, unit));
  }
  if (bound_row) {
    grid.add_row_with_note(std::move(cells), communication_note(record));
  } else {
    grid.add_row(std::move(cells));
  }
}

/// Rows of a group that can be compared with each other; none where controls differ.
std::vector<const Record*> comparable_rows(const RowGroup& group) {
  std::vector<const Record*> rows;
  if (!group.controls_differ.empty()) return rows;
  std::ranges::copy_if(group.rows, std::back_inserter(rows),
                       [](const Record* record) { return has_speed(*record); });
  return rows;
}

/// On the best baseline and on the whole model.
std::vector<std::string> notes_on(const RowGroup& group, const ImplementationNames& names) {
  const std::vector<const Record*> rows = comparable_rows(group);
  return {baseline_note(rows, names), extrapolation_note(rows, names)};
}

SpeedUps speed_ups_over_best(const RowGroup& group) {
  const std::vector<const Record*> rows = comparable_rows(group);
  const Record* best = best_baseline(rows);
  SpeedUps over_best;
  if (best == nullptr) return over_best;
  for (const Record* row : rows) {
    if (metric(*row, "speedup_plain")) {
      over_best[row] = *metric(*best, "time") / *metric(*row, "time");
    }
  }
  return over_best;
}

/// "clocks differ: 1755 to 1980 MHz (plain, commfuse:m=2)": of devices, in rows that compute. What
/// only communicates leaves the clock alone. Empty where they agree or are not known.
std::string clock_difference(const RowGroup& group, const ImplementationNames& names) {
  std::optional<std::pair<double, std::string>> least, most;
  for (const Record* record : group.rows) {
    const nlohmann::ordered_json* clock = value_at(record->details, "device_state", "clock_mhz");
    if (clock == nullptr || !has_speed(*record) || record->impl == "comm_only") continue;
    const double mean = clock->value("mean", 0.0);
    if (mean <= 0) continue;
    if (!least || mean < least->first) least = {mean, names.brief(record->impl)};
    if (!most || mean > most->first) most = {mean, names.brief(record->impl)};
  }
  if (!least || most->first <= least->first * (1 + kClockTolerance)) return "";
  return fmt::format(
      "clocks differ: {:.0f} MHz ({}) to {:.0f} MHz ({}); part of the difference in time is theirs",
      least->first, least->second, most->first, most->second);
}

TextGrid empty_grid(const TimeUnit& unit) {
  using Align = TextGrid::Align;
  TextGrid grid;
  grid.add_column("impl", "", Align::left);
  grid.add_column("check", "", Align::left);
  grid.add_column("transport", "", Align::left);
  grid.add_column("mode", "", Align::left);
  grid.add_column("clock", "", Align::left);
  for (const NumberColumn& column : kNumbers) {
    grid.add_column(std::string(column.name),
                    std::string(column.unit.empty() ? unit.name : column.unit));
  }
  return grid;
}

bool all_equal(const std::vector<std::string>& cells) {
  return std::ranges::all_of(cells, [&](const std::string& cell) { return cell == cells.front(); });
}

bool all_zero(const std::vector<std::string>& cells) {
  bool any = false;
  for (const std::string& cell : cells) {
    if (cell.empty()) continue;
    if (cell.find_first_not_of("0.") != std::string::npos) return false;
    any = true;
  }
  return any;
}

/// Hides controls that do not vary, losses that are 0 in every row, and a speed-up that says what
/// another says.
ShownColumns hide_what_does_not_vary(TextGrid& grid) {
  ShownColumns shown;
  for (const std::size_t control : {kTransport, kMode, kClock}) {
    if (all_equal(grid.cells_of(control))) grid.hide(control);
  }
  // Where plain is the best baseline everywhere.
  const auto column = [](std::string_view name) {
    return kFirstNumber +
           static_cast<std::size_t>(std::ranges::find(kNumbers, name, &NumberColumn::metric) -
                                    kNumbers.begin());
  };
  shown.over_best = grid.cells_of(column(kOverBest)) != grid.cells_of(column("speedup_plain"));
  if (!shown.over_best) grid.hide(column(kOverBest));
  for (std::size_t i = 0; i < kNumbers.size(); ++i) {
    if (!kNumbers[i].loss || !all_zero(grid.cells_of(kFirstNumber + i))) continue;
    grid.hide(kFirstNumber + i);
    shown.zero.emplace_back(kNumbers[i].name);
  }
  return shown;
}

}  // namespace

std::string comparison_table(std::span<const Record> records, TableForm form) {
  if (records.empty()) return "no records\n";
  const RowIdentity identity = identify(records);
  const ImplementationNames names(records);
  const TimeUnit unit = time_unit(records);
  const bool grouped = identity.groups.size() > 1;

  TextGrid grid = empty_grid(unit);
  for (const RowGroup& group : identity.groups) {
    if (grouped) grid.add_line(group.heading);
    const SpeedUps over_best = speed_ups_over_best(group);
    for (const Record* record : group.rows) {
      add_row(grid, *record, names, unit, grouped, over_best);
    }
    for (const std::string& note : notes_on(group, names)) {
      if (!note.empty()) grid.add_line("  " + note);
    }
    if (!group.controls_differ.empty()) {
      grid.add_line(fmt::format("  controls differ: {}; compare only rows that agree in them",
                                fmt::join(group.controls_differ, ", ")));
    }
    if (const std::string clocks = clock_difference(group, names); !clocks.empty()) {
      grid.add_line("  " + clocks);
    }
  }
  const ShownColumns shown = hide_what_does_not_vary(grid);

  std::string text = wrapped(identity.constant, ", ", "  ");
  for (const std::string& line : names.constant_parameters()) text += line + '\n';
  const bool markdown = form == TableForm::markdown;
  return text + '\n' + (markdown ? grid.markdown() : grid.text()) + table_legend(records, shown);
}

}  // namespace commfuse

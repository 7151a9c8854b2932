// SPDX-License-Identifier: Apache-2.0
#include "harness/record/table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/record/best_baseline.h"
#include "harness/record/layer_notes.h"
#include "harness/record/metrics.h"
#include "harness/record/row_identity.h"
#include "harness/record/text_grid.h"

namespace commfuse {
namespace {

constexpr std::size_t kWidth = 110;       // of running text
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
    NumberColumn{"hidden", "%", "hidden_share", Quantity::percent},
    NumberColumn{"skew", "ratio", "skew", Quantity::ratio},
    NumberColumn{"flops", "% peak", "flops_utilisation", Quantity::percent},
    NumberColumn{"mfu", "% peak", "mfu", Quantity::percent},
    NumberColumn{"tokens", "k/s", "tokens_per_s", Quantity::thousands},
};

/// In percent between ranks: what is below would be printed as 0.0.
constexpr double kLeastSpread = 0.05;

// The columns before the numbers.
constexpr std::size_t kImpl = 0, kCheck = 1, kTransport = 2, kMode = 3, kClock = 4;
constexpr std::size_t kFirstNumber = 5;

/// object[group][name], or nullptr.
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

/// A simulated row has no data to check; its plan was verified before it ran.
bool has_speed(const Record& record) {
  return record.outcome == Outcome::ok && (record.check || record.clock == Clock::modelled) &&
         metric(record, "time");
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
  for (const Record& record : records) {
    if (!has_speed(record) || record.impl == "comm_only") continue;
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
             const TimeUnit& unit, bool grouped) {
  std::vector<std::string> cells = leading_cells(record, names, grouped);
  if (!has_speed(record)) {
    grid.add_row_with_note(std::move(cells), explanation(record));
    return;
  }
  const bool bound_row = record.impl == "comm_only";
  for (const NumberColumn& column : kNumbers) {
    if (bound_row && column.metric != "time" && column.metric != "p95") break;
    cells.push_back(number_text(value_of(record, column), column, unit));
  }
  if (bound_row) {
    grid.add_row_with_note(std::move(cells), communication_note(record));
  } else {
    grid.add_row(std::move(cells));
  }
}

/// The notes on forms of plain and on the whole model, where all rows of the group can be compared.
std::vector<std::string> notes_on(const RowGroup& group, const ImplementationNames& names) {
  if (!group.controls_differ.empty()) return {};
  std::vector<const Record*> rows;
  std::ranges::copy_if(group.rows, std::back_inserter(rows),
                       [](const Record* record) { return has_speed(*record); });
  return {best_baseline(rows, names), extrapolation_note(rows, names)};
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

/// Hides controls that do not vary, and losses that are 0 in every row; returns the latter's names.
std::vector<std::string> hide_what_does_not_vary(TextGrid& grid) {
  for (const std::size_t control : {kTransport, kMode, kClock}) {
    if (all_equal(grid.cells_of(control))) grid.hide(control);
  }
  std::vector<std::string> zero;
  for (std::size_t i = 0; i < kNumbers.size(); ++i) {
    if (!kNumbers[i].loss || !all_zero(grid.cells_of(kFirstNumber + i))) continue;
    grid.hide(kFirstNumber + i);
    zero.emplace_back(kNumbers[i].name);
  }
  return zero;
}

/// Joins parts with `separator`, in lines of at most kWidth characters.
std::string wrapped(const std::vector<std::string>& parts, std::string_view separator,
                    std::string_view indent) {
  std::string text;
  std::size_t line = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    const std::size_t length = parts[i].size() + (last ? 0 : separator.size());
    if (line > 0 && line + length > kWidth) {
      text.erase(text.find_last_not_of(' ') + 1);
      text += fmt::format("\n{}", indent);
      line = indent.size();
    }
    text += parts[i];
    if (!last) text += separator;
    line += length;
  }
  return text + '\n';
}

std::string sentence(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return wrapped(words, " ", "  ");
}

bool any_with(std::span<const Record> records, std::string_view name) {
  return std::ranges::any_of(records, [&](const Record& record) {
    return has_speed(record) && record.impl != "comm_only" && metric(record, name).has_value();
  });
}

std::string rate_text(double low, double high) {  // in TFLOP/s
  const bool small = high < 1;
  const double scale = small ? 1e3 : 1;
  const std::string least = fmt::format("{:.3g}", low * scale);
  const std::string most = fmt::format("{:.3g}", high * scale);
  return fmt::format("{} {}", least == most ? least : fmt::format("{} to {}", least, most),
                     small ? "GFLOP/s" : "TFLOP/s");
}

/// "measured gemm peak, 81 to 83 GFLOP/s per rank": the denominators of the flops column ("peak"),
/// or what was measured beside them ("measured_peak").
std::vector<std::string> peaks(std::span<const Record> records, std::string_view key) {
  std::map<std::string, std::pair<double, double>> range;  // by name
  for (const Record& record : records) {
    const auto value = number_at(record.details, key, "value");
    if (!value || !has_speed(record)) continue;
    const nlohmann::ordered_json* name = value_at(record.details, key, "name");
    if (name == nullptr || !name->is_string()) continue;
    const auto entry = range.try_emplace(name->get<std::string>(), std::pair(*value, *value)).first;
    entry->second.first = std::min(entry->second.first, *value);
    entry->second.second = std::max(entry->second.second, *value);
  }
  std::vector<std::string> texts;
  for (const auto& [name, values] : range) {
    texts.push_back(fmt::format("{}, {} per rank", name, rate_text(values.first, values.second)));
  }
  return texts;
}

/// Which rank is the slowest most often, and how far apart ranks are at most.
std::string rank_text(std::span<const Record> records) {
  std::map<std::string, std::size_t> slowest;
  std::size_t rows = 0;
  double spread = 0;
  for (const Record& record : records) {
    const nlohmann::ordered_json* medians = value_at(record.details, "ranks", "median");
    if (!has_speed(record) || record.impl == "comm_only" || medians == nullptr) continue;
    if (!medians->is_array() || medians->size() < 2) continue;
    const auto times = medians->get<std::vector<double>>();
    const auto [least, most] = std::ranges::minmax(times);
    if (least > 0) spread = std::max(spread, most / least - 1);
    const nlohmann::ordered_json* host = value_at(record.details, "ranks", "slowest_host");
    ++slowest[fmt::format("{}{}", number_at(record.details, "ranks", "slowest").value_or(0),
                          host != nullptr && host->is_string()
                              ? fmt::format(" on {}", host->get<std::string>())
                              : "")];
    ++rows;
  }
  if (rows == 0 || 100 * spread < kLeastSpread) return "";
  const auto usual =
      std::ranges::max_element(slowest, {}, [](const auto& entry) { return entry.second; });
  return sentence(fmt::format(
      "The slowest rank is {} in {} of {} rows; it takes at most {:.1f} % longer than the fastest.",
      usual->first, usual->second, rows, 100 * spread));
}

/// How many repetitions the medians are of, and whether the time limit decided that.
std::string repetition_text(std::span<const Record> records) {
  double fewest = 0;
  double most = 0;
  std::size_t cut = 0;
  for (const Record& record : records) {
    if (!has_speed(record) || !record.details.is_object()) continue;
    if (record.clock == Clock::modelled) continue;  // the same in every repetition
    double count = record.details.value("repetitions", 0.0);
    if (!record.details.value("preempted_used", false)) {
      count -= record.details.value("preempted", 0.0);
    }
    if (count == 0) continue;
    fewest = most == 0 ? count : std::min(fewest, count);
    most = std::max(most, count);
    const auto* stopped = value_at(record.details, "sampling", "stopped");
    if (stopped != nullptr && *stopped == "time limit") ++cut;
  }
  if (most == 0) return "";
  std::string text =
      fewest == most
          ? fmt::format("Medians are of {} {}", most, most == 1 ? "repetition" : "repetitions")
          : fmt::format("Medians are of {} to {} repetitions", fewest, most);
  constexpr double kSamplesOfP95 = 20;
  if (fewest < kSamplesOfP95) text += ", too few for a p95";
  if (cut > 0) {
    text +=
        fmt::format("; the time limit ended the sampling of {} {}", cut, cut == 1 ? "row" : "rows");
  }
  return sentence(text + ".");
}

std::string preemption_text(std::span<const Record> records) {
  double preempted = 0;
  double sampled = 0;
  std::size_t used = 0;
  for (const Record& record : records) {
    if (!has_speed(record) || !record.details.is_object()) continue;
    const bool kept = record.details.value("preempted_used", false);
    used += kept ? 1 : 0;
    preempted += kept ? 0.0 : record.details.value("preempted", 0.0);
    sampled += record.details.value("repetitions", 0.0);
  }
  std::string text;
  if (preempted > 0) {
    text = sentence(fmt::format(
        "{} of {} repetitions were left out, because other processes interrupted their compute.",
        preempted, sampled));
  }
  if (used > 0) {
    text += sentence(fmt::format(
        "{} {} interrupted repetitions for lack of others: this machine is too busy to measure on.",
        used, used == 1 ? "row uses" : "rows use"));
  }
  return text;
}

/// --link auto:R that did not come out within a tenth. On one rank nothing moves.
std::string link_legend(std::span<const Record> records) {
  std::set<std::string> missed;
  for (const Record& record : records) {
    const bool moves = record.impl == "comm_only" && record.ranks > 1;
    if (!has_speed(record) || !moves || !record.link.starts_with("auto:")) continue;
    const auto got = metric(record, "r_effective");
    const double asked = std::strtod(record.link.c_str() + 5, nullptr);
    if (!got || asked <= 0 || std::abs(*got / asked - 1) <= 0.1) continue;
    missed.insert(fmt::format("{} came out as {:.3g}", record.link, *got));
  }
  if (missed.empty()) return "";
  return sentence(fmt::format("link {}: the machine's speed changed after it was calibrated.",
                              fmt::join(missed, ", ")));
}

std::string check_legend(std::span<const Record> records) {
  std::set<std::string> bounds;
  for (const Record& record : records) {
    if (has_speed(record) && record.check && record.check->bound != "exact") {
      bounds.insert(record.check->bound);
    }
  }
  if (bounds.empty()) return "";
  return sentence(fmt::format("ok bound: {}.", fmt::join(bounds, "; ")));
}

/// A simulation has one repetition of one iteration.
bool all_modelled(std::span<const Record> records) {
  return std::ranges::all_of(records,
                             [](const Record& record) { return record.clock == Clock::modelled; });
}

std::string time_legend(std::span<const Record> records) {
  return sentence(all_modelled(records)
                      ? "time is what the slowest rank takes, in simulated time."
                      : "time is the median over iterations; an iteration takes as long as its "
                        "slowest rank.");
}

std::string loss_legend(std::span<const Record> records, const std::vector<std::string>& zero) {
  if (!any_with(records, "exposed")) return "";
  std::string text = sentence(
      all_modelled(records)
          ? "exposed is communication that nothing hides, as a share of compute_only's time, which "
            "is whole: time = whole + head + interior + tail + decomp + contend + last; accum is "
            "part of decomp."
          : "exposed is communication that nothing hides, as a share of compute_only's time, a "
            "median over repetitions. Time and losses of a schedule are those of the repetition "
            "with the median time (of two, the shorter): time = whole + head + interior + tail + "
            "decomp + contend + last, where whole is compute_only in the same repetition; accum is "
            "part of decomp.");
  text += sentence(
      "tail is exposed_tail, what waits after the last model op; it is no percentile of a "
      "latency.");
  if (!zero.empty()) text += sentence(fmt::format("0 in every row: {}.", fmt::join(zero, ", ")));
  for (const Clock clock : {Clock::replayed, Clock::modelled}) {
    if (std::ranges::any_of(records, [&](const Record& r) { return r.clock == clock; })) {
      text += sentence(fmt::format(
          "contend is 0 by construction in {} rows: both plans share op times.", name_of(clock)));
    }
  }
  return text;
}

/// "flops", "mfu" or "flops and mfu": the columns that are shares of a peak.
std::string share_columns(std::span<const Record> records) {
  bool stages = false;
  bool layers = false;
  for (const Record& record : records) {
    if (!has_speed(record) || !metric(record, "flops_utilisation")) continue;
    (metric(record, "mfu") ? layers : stages) = true;
  }
  if (stages && layers) return "flops and mfu";
  return layers ? "mfu" : stages ? "flops" : "";
}

bool above_peak(const Record& record) {
  return has_speed(record) && (metric(record, "flops_utilisation").value_or(0) > kAbovePeak ||
                               metric(record, "hfu").value_or(0) > kAbovePeak);
}

std::string flops_legend(std::span<const Record> records) {
  const std::string columns = share_columns(records);
  if (columns.empty()) return "";
  const std::vector<std::string> names = peaks(records, "peak");
  const std::vector<std::string> measured = peaks(records, "measured_peak");
  std::string text =
      names.empty() ? ""
                    : sentence(fmt::format("{}: share of {}.", columns, fmt::join(names, "; ")));
  if (!measured.empty()) {
    text += sentence(fmt::format("Beside it: {}.", fmt::join(measured, "; ")));
  }
  if (std::ranges::any_of(records, above_peak)) {
    text += sentence(
        fmt::format("{} above 100 %: that peak is too low, do not trust the column.", columns));
  }
  return text;
}

std::string layers_legend(std::span<const Record> records) {
  std::vector<const Record*> rows;
  for (const Record& record : records) {
    if (has_speed(record)) rows.push_back(&record);
  }
  std::string text;
  for (const std::string& note : layer_legend(rows)) text += sentence(note);
  return text;
}

std::string legend(std::span<const Record> records, const std::vector<std::string>& zero) {
  if (std::ranges::none_of(records, has_speed)) return "";
  return "\n" + time_legend(records) + loss_legend(records, zero) + flops_legend(records) +
         layers_legend(records) + check_legend(records) + link_legend(records) +
         rank_text(records) + repetition_text(records) + preemption_text(records);
}

}  // namespace

std::string comparison_table(std::span<const Record> records) {
  if (records.empty()) return "no records\n";
  const RowIdentity identity = identify(records);
  const ImplementationNames names(records);
  const TimeUnit unit = time_unit(records);
  const bool grouped = identity.groups.size() > 1;

  TextGrid grid = empty_grid(unit);
  for (const RowGroup& group : identity.groups) {
    if (grouped) grid.add_line(group.heading);
    for (const Record* record : group.rows) add_row(grid, *record, names, unit, grouped);
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
  const std::vector<std::string> zero = hide_what_does_not_vary(grid);

  std::string text = wrapped(identity.constant, ", ", "  ");
  for (const std::string& line : names.constant_parameters()) text += line + '\n';
  return text + '\n' + grid.text() + legend(records, zero);
}

}  // namespace commfuse

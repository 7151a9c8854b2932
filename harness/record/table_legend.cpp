// SPDX-License-Identifier: Apache-2.0
#include "harness/record/table_legend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "harness/record/layer_notes.h"
#include "harness/record/metrics.h"
#include "harness/record/row_facts.h"
#include "harness/record/running_text.h"

namespace commfuse {
namespace {

/// In percent between ranks: what is below would be printed as 0.0.
constexpr double kLeastSpread = 0.05;

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
    if (record.outcome == Outcome::ok && record.check && record.check->bound != "exact") {
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

std::string one_rank_legend(std::span<const Record> records) {
  if (std::ranges::any_of(records, [](const Record& record) { return record.ranks > 1; }))
    return "";
  return sentence("One rank has nobody to communicate with: mpirun -np N, or --threads N.");
}

std::string time_legend(std::span<const Record> records) {
  return sentence(all_modelled(records)
                      ? "time is what the slowest rank takes, in simulated time."
                      : "time is the median over iterations; an iteration takes as long as its "
                        "slowest rank.");
}

std::string ratio_legend(std::span<const Record> records, bool best_shown) {
  std::string text;
  if (best_shown) {
    text += sentence(
        "vs best is the speed-up over the best baseline: the fastest of what is not commfuse.");
  }
  if (any_with(records, "distance")) {
    text += sentence(
        "vs bound is the time over the larger of compute_only's and the bytes over the link.");
  }
  return text;
}

std::string loss_legend(std::span<const Record> records, const std::vector<std::string>& zero) {
  if (!any_with(records, "exposed")) return "";
  std::string text = sentence(
      all_modelled(records)
          ? "exposed is communication that nothing hides, as a share of compute_only's time, which "
            "is whole: time = whole + head + interior + tail + decomp + contend + last; accum is "
            "part of decomp."
          : "exposed is communication that nothing hides, as a share of compute_only's time; like "
            "speedup, hidden and shares of a peak it is a median over repetitions, which no single "
            "repetition need have. Time and losses of a schedule are those of the repetition "
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

}  // namespace

std::string table_legend(std::span<const Record> records, const ShownColumns& shown) {
  if (std::ranges::none_of(records, has_speed)) {
    const std::string checks = check_legend(records);
    return checks.empty() ? "" : "\n" + checks;
  }
  return "\n" + one_rank_legend(records) + time_legend(records) +
         ratio_legend(records, shown.over_best) + loss_legend(records, shown.zero) +
         flops_legend(records) + layers_legend(records) + check_legend(records) +
         link_legend(records) + rank_text(records) + repetition_text(records) +
         preemption_text(records);
}

}  // namespace commfuse

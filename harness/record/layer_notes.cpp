// SPDX-License-Identifier: Apache-2.0
#include "harness/record/layer_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace commfuse {
namespace {

double metric_or_zero(const Record& record, const char* name) {
  const auto found = record.metrics.find(name);
  return found == record.metrics.end() ? 0 : found->second.value;
}

bool extrapolated(const Record& record) {
  return record.impl != "comm_only" && metric_or_zero(record, "extrapolated_time") > 0 &&
         record.details.is_object() && record.details.contains("extrapolation");
}

std::string duration_text(double ns) {
  if (ns >= 1e9) return fmt::format("{:.3g} s", ns / 1e9);
  return ns >= 1e6 ? fmt::format("{:.3g} ms", ns / 1e6) : fmt::format("{:.3g} us", ns / 1e3);
}

std::string count_text(double count) {
  return count >= 100 ? fmt::format("{:.0f}", count) : fmt::format("{:.3g}", count);
}

/// By how much hfu is above mfu, at most; 1 where nothing is computed twice.
double largest_recomputation(std::span<const Record* const> rows) {
  double largest = 1;
  for (const Record* row : rows) {
    const double mfu = metric_or_zero(*row, "mfu");
    if (mfu > 0) largest = std::max(largest, metric_or_zero(*row, "hfu") / mfu);
  }
  return largest;
}

bool any_has(std::span<const Record* const> rows, const char* name) {
  return std::ranges::any_of(rows, [&](const Record* row) { return row->metrics.contains(name); });
}

std::set<std::string> left_out(std::span<const Record* const> rows) {
  std::set<std::string> texts;
  for (const Record* row : rows) {
    if (extrapolated(*row)) texts.insert(row->details["extrapolation"].value("leaves_out", ""));
  }
  return texts;
}

}  // namespace

std::string extrapolation_note(std::span<const Record* const> rows,
                               const ImplementationNames& names) {
  const Record* best = nullptr;
  for (const Record* row : rows) {
    if (!extrapolated(*row) || row->impl == "compute_only") continue;
    const auto time = [](const Record& record) {
      return metric_or_zero(record, "extrapolated_time");
    };
    if (best == nullptr || time(*row) < time(*best)) best = row;
  }
  if (best == nullptr) return "";
  const auto& model = best->details["extrapolation"];
  return fmt::format(
      "extrapolated to the {} layers of {}: {}, {} tokens/s ({})", model.value("layers", 0),
      model.value("model", ""), duration_text(metric_or_zero(*best, "extrapolated_time")),
      count_text(metric_or_zero(*best, "extrapolated_tokens_per_s")), names.brief(best->impl));
}

std::vector<std::string> layer_legend(std::span<const Record* const> rows) {
  std::vector<std::string> sentences;
  if (any_has(rows, "mfu")) {
    std::string text =
        "mfu counts what a whole layer needs, of attention the pairs that its mask shows; records "
        "have it as PaLM and Megatron-LM count, too (mfu_palm, mfu_megatron).";
    if (const double more = largest_recomputation(rows); more > 1.0005) {
      text += fmt::format(" hfu, with what is computed again, is up to {:.3f} x mfu.", more);
    }
    sentences.push_back(std::move(text));
  }
  if (any_has(rows, "tokens_per_s")) {
    sentences.emplace_back("tokens are those of one replica through this pass of one layer.");
  }
  for (const std::string& text : left_out(rows)) {
    sentences.push_back(fmt::format(
        "extrapolated: that schedule's time for this pass of one layer, times layers; left out: "
        "{}.",
        text));
  }
  return sentences;
}

}  // namespace commfuse

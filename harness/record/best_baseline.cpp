// SPDX-License-Identifier: Apache-2.0
#include "harness/record/best_baseline.h"

#include <fmt/format.h>

#include <algorithm>

namespace commfuse {
namespace {

double time_of(const Record& record) { return record.metrics.at("time").value; }

bool is_commfuse(const Record& record) { return record.impl.starts_with("commfuse"); }

bool is_baseline(const Record& record) {
  return record.impl != "compute_only" && record.impl != "comm_only" && !is_commfuse(record);
}

/// The fastest of those that `wanted` holds for; null if there is none.
template <class Wanted>
const Record* fastest(std::span<const Record* const> rows, Wanted wanted) {
  const Record* best = nullptr;
  for (const Record* row : rows) {
    if (wanted(*row) && (best == nullptr || time_of(*row) < time_of(*best))) best = row;
  }
  return best;
}

}  // namespace

const Record* best_baseline(std::span<const Record* const> rows) {
  return fastest(rows, is_baseline);
}

std::string baseline_note(std::span<const Record* const> rows, const ImplementationNames& names) {
  if (std::ranges::count_if(rows, [](const Record* row) { return is_baseline(*row); }) < 2) {
    return "";
  }
  const Record& best = *best_baseline(rows);
  std::string text = fmt::format("best baseline: {}", names.brief(best.impl));
  const Record* const usual = fastest(rows, [](const Record& row) { return row.impl == "plain"; });
  if (usual != nullptr && usual != &best) {
    text += fmt::format(", {:.2f} x plain", time_of(*usual) / time_of(best));
  }
  const Record* const other = fastest(rows, is_commfuse);
  if (other == nullptr) return text;
  return text + fmt::format("; {} takes {:.2f} of its time", names.brief(other->impl),
                            time_of(*other) / time_of(best));
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// What --list, --dry-run and --explain print: no world, no memory, no clock.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/case.h"

namespace commfuse {

/// Workloads, implementations with their parameters, and presets.
std::string list_selection();
/// The same, and transports.
std::string list_everything();
/// {"benchmarks": [{"name": id}, ...]} of the cases that would run, as Google Benchmark lists.
std::string list_json(std::span<const CaseGroup> groups);
/// What a run would find here. 0: not known, or of no interest.
struct Machine {
  std::int32_t usable_cores = 0;
  std::int64_t available_bytes = 0;
  bool one_node = true;
  std::int64_t cache_bytes = 0;  // that --cache rotate is to exceed
};
/// One line per case: its id, or why it is skipped; the memory of each group.
std::string dry_run(std::span<const CaseGroup> groups, const Machine& machine);
/// The wanted rows of a group: their ids, each with why it is skipped, be it for the group's
/// reason.
std::string rows_text(const CaseGroup& group, const std::string& reason);
/// "ID skipped: REASON" of every row that is known to be.
std::vector<std::string> skipped_lines(std::span<const CaseGroup> groups);
/// The plans of every rank of every schedule; of the bounds only where no schedule is selected.
/// Cases that are skipped have none.
std::string explain(std::span<const CaseGroup> groups, bool dot);

}  // namespace commfuse

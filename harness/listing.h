// SPDX-License-Identifier: Apache-2.0
// What --list, --dry-run and --explain print: no world, no memory, no clock.
#pragma once

#include <span>
#include <string>

#include "harness/case.h"

namespace commfuse {

/// Workloads, implementations with their parameters, presets and transports.
std::string list_everything();
/// {"benchmarks": [{"name": id}, ...]} of the cases that would run, as Google Benchmark lists.
std::string list_json(std::span<const CaseGroup> groups);
/// One line per case: its id, or why it is skipped; the memory of each group.
std::string dry_run(std::span<const CaseGroup> groups);
/// The plans of every rank of every case.
std::string explain(std::span<const CaseGroup> groups, bool dot);

}  // namespace commfuse

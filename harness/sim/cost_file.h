// SPDX-License-Identifier: Apache-2.0
// Measured times of ops as a file: one JSON object, written at once.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/sim/cost_table.h"

namespace commfuse {

constexpr int kCostSchema = 1;

struct CostFile {
  nlohmann::ordered_json machine;  // host, cpu, backend, gpu, libraries: what the times are of
  std::string clock;               // "thread CPU time" or "device time"
  std::string time;                // ISO 8601, UTC, of the last recording
  std::string commit;
  OpCosts costs;
};

/// {schema, machine, clock, time, commit, ops: [{op: {kind, how, its sizes}, ns, count, spread}]}.
nlohmann::ordered_json to_json(const CostFile& file);

/// Throws UsageError with one line that begins with the path: it cannot be read, is no file, no
/// whole JSON object, has an unknown schema, or an entry that lacks a field, has a time that is
/// negative or not finite, or occurs twice.
CostFile read_costs(const std::filesystem::path& path);

/// Under another name first, so that the file is whole or what it was. Throws std::runtime_error
/// naming path and reason.
void write_costs(const std::filesystem::path& path, const CostFile& file);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// --record-costs: how long ops and collectives took where nothing ran beside them, collected on
// every rank while cases are measured, and written as one file after each group of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/record/timeline.h"
#include "harness/sim/cost_file.h"
#include "harness/world/world.h"
#include "impls/plan.h"

namespace commfuse {

struct OpTime {
  OpId op = 0;
  std::int64_t ns = 0;
};
/// Appends the compute ops of an iteration, by their thread CPU time where it is known, else from
/// begin to end; and its collectives, from begin to end. On a device, ops of one kind that follow
/// each other share the time of all of them by their FLOPs, or bytes (cuda/compute_stamps.h).
void append_op_times(const Timeline& timeline, std::vector<OpTime>& times);

/// Of one launch; every rank has one.
class CostRecording {
 public:
  CostRecording(std::filesystem::path path, bool resume)
      : path_(std::move(path)), resume_(resume) {}

  /// On rank 0, before anything is measured: reads what a resumed file holds. Throws UsageError
  /// where the file exists and is not resumed, is none of costs, or could not be written.
  void open();
  /// On rank 0: what the times are of. Throws UsageError where the file holds those of another
  /// clock, or of a machine that differs in more than the name of its host.
  void describe(const nlohmann::ordered_json& machine, const std::string& clock);

  /// Times of ops of this plan; collectives were moved by this transport.
  void add(const Plan& plan, std::span<const OpTime> times, std::string_view transport);
  /// Collective: afterwards rank 0 has all samples so far, of all ranks, and the others none.
  void gather(World& world);
  /// On rank 0, after gather(), as often as there is something new: an op that was measured
  /// replaces what the file had of it before this launch. Where none was, nothing is written.
  /// Throws as write_costs().
  void write(const std::string& time, const std::string& commit) const;
  /// On rank 0: how many ops have been gathered.
  [[nodiscard]] std::size_t measured() const { return gathered_.size(); }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool resume_ = false;
  std::optional<CostFile> before_;  // what the file held
  nlohmann::ordered_json machine_;
  std::string clock_;
  std::map<OpKey, std::vector<double>> samples_;   // of this rank since gather(), in ns
  std::map<OpKey, std::vector<double>> gathered_;  // on rank 0, of all ranks
};

/// Of samples in any order; there is at least one.
OpCost cost_of(std::vector<double> samples);

}  // namespace commfuse

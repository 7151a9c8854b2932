// SPDX-License-Identifier: Apache-2.0
// Decides what is sampled, in which order and when it is enough: on rank 0, for all ranks. Ranks
// that chose for themselves would deadlock.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "harness/world/world.h"

namespace commfuse {

struct SamplingRule {
  std::int32_t repetitions =
      0;  // exactly so many; 0: at least kFewest, until every median is known to `precision`
  double precision = 0.01;   // half-width of a 95 % interval over the median
  double time_limit_s = 60;  // wall time, whatever the timed part adds up to
  std::uint64_t seed = 1;
};

/// Kept in the record's details.
struct SamplingReport {
  std::int32_t repetitions = 0;
  bool converged = false;
  std::string reason;  // why it stopped
  double wall_s = 0;
  std::uint64_t seed = 0;
  std::vector<std::vector<std::uint32_t>> order;  // of the runs, by repetition
};

class Sampler {
 public:
  static constexpr std::int32_t kFewest = 10;
  static constexpr std::int32_t kMost = 1000;

  Sampler(World& world, const SamplingRule& rule, std::size_t runs);

  /// The runs of the next repetition in their order, or nothing: enough. Collective; rank 0
  /// decides.
  std::optional<std::vector<std::uint32_t>> next();
  /// The time of a run in this repetition: the maximum over ranks.
  void record(std::uint32_t run, double time_ns);
  [[nodiscard]] const std::vector<double>& times(std::uint32_t run) const { return times_[run]; }
  [[nodiscard]] const SamplingReport& report() const { return report_; }

 private:
  [[nodiscard]] std::string reason_to_stop();
  [[nodiscard]] double worst_precision() const;

  World& world_;
  SamplingRule rule_;
  std::mt19937_64 random_;
  std::chrono::steady_clock::time_point start_;
  std::vector<std::vector<double>> times_;  // by run, then repetition
  double precision_at_last_look_ = 1e300;
  std::int32_t next_look_ = 4 * kFewest;
  SamplingReport report_;
};

}  // namespace commfuse

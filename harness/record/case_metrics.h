// SPDX-License-Identifier: Apache-2.0
// From the iterations of one case to its samples, metrics and notes. docs/metrics.md derives every
// number.
//
// Ratios and waterfalls are taken within a repetition, on one iteration of each run: the one with
// the (lower) median time among the iterations that were not preempted. What is reported are
// medians over the repetitions. A repetition in which some run has no undisturbed iteration is
// counted and left out, unless fewer than kFewestRepetitions would remain; then all are used, and
// the details say so. Samples and distribution keep every iteration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/metrics.h"
#include "harness/record/record.h"

namespace commfuse {

constexpr std::size_t kFewestRepetitions = 3;

/// One iteration, indexed by rank (the ranks of the case's group or groups, in world order).
using RankSummaries = std::vector<IterationSummary>;

/// The iterations of one run in one repetition: one if isolated, k of them if steady.
using Repetition = std::vector<RankSummaries>;

/// Everything that was sampled of one plan. No repetition and no iteration is empty, and every
/// iteration has the same number of ranks.
struct RunSamples {
  std::vector<Repetition> repetitions;

  [[nodiscard]] bool empty() const { return repetitions.empty(); }
};

/// What a case is: a schedule, or one of the two bounds measured like one.
enum class RowKind : std::uint8_t { schedule, compute_only, comm_only };

/// A collective of the workload. `array_bytes` counts as nccl-tests does: the whole array of all
/// ranks in an all-gather or a reduce-scatter, all that one rank sends in an all-to-all (its own
/// block too), and what is added in an all-reduce.
struct CollectiveBytes {
  std::string name;  // as busbw_factor() takes it: "all_gather", "reduce_scatter", ...
  std::int64_t array_bytes = 0;
};

/// A count of FLOPs that becomes a share of the peak.
struct CountedShare {
  std::string metric;         // "mfu", "hfu", "mfu_palm", ...
  double flops_per_rank = 0;  // of one iteration
  std::string convention;     // what is counted, and by whom
};

/// What a case has beside that is a whole transformer layer.
struct LayerCounts {
  std::int64_t tokens = 0;  // of one replica, which is one group of ranks
  std::vector<CountedShare> shares;
  std::string model;              // the preset of which it is a layer; may be empty
  std::int32_t model_layers = 0;  // of that preset; 0 without one
};

/// The measurements behind one record. Runs that were not made are null or empty; metrics that need
/// them are absent. Repetition i of every run was sampled together; where the counts differ, ratios
/// use the repetitions that all runs have. Runs are borrowed for the call only. What stands in the
/// record already and counts: `ranks` (of one group) for busbw, `clock`.
struct CaseSamples {
  RowKind kind = RowKind::schedule;
  const RunSamples* run = nullptr;           // this case's plan; required, never empty
  const RunSamples* quiet = nullptr;         // the same plan without its communication
  const RunSamples* compute_only = nullptr;  // the bounds of the same workload
  const RunSamples* comm_only = nullptr;
  const RunSamples* plain = nullptr;  // the plain schedule; `run` itself on the row of plain

  std::int64_t flops_per_rank = 0;            // model FLOPs of one iteration of one rank
  std::optional<LayerCounts> layer;           // of a whole layer
  double peak_flops_per_second = 0;           // per rank; 0 where it is not known
  std::string peak_name;                      // "measured gemm peak"; a table must name its source
  double measured_peak_flops_per_second = 0;  // recorded beside a peak of another name
  std::string measured_peak_name;
  std::int64_t moved_bytes = 0;              // what one rank must receive by the chosen algorithm
  double link_bytes_per_second = 0;          // 0 where the link is not known, or has no limit
  std::vector<CollectiveBytes> collectives;  // comm_only: what algbw and busbw count
  std::vector<std::string> hosts;            // by rank; may be empty
};

/// Fills record.samples, record.metrics and, beside what the caller put there, record.details:
/// `repetitions`, `preempted` (how many), `preempted_repetitions` (which), `preempted_used` (they
/// count all the same), `distribution` of all iterations, `ranks` {median[], slowest,
/// slowest_host}, `waterfall` of the repetition with the (lower) median T, `flops_per_rank`,
/// `peak` (`exceeded` where flops_utilisation, mfu or hfu is above 1), `measured_peak`, `layer` and
/// `extrapolation` of a whole layer. Throws std::invalid_argument if
/// `run` is missing or empty, or if the ranks of two iterations differ.
void add_metrics(Record& record, const CaseSamples& samples);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// Records made by hand: samples with known answers, turned into records by the code under test.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/case_metrics.h"

namespace commfuse::test {

/// Parts of one rank's iteration; the window is their sum.
struct Parts {
  std::int64_t busy = 0;
  std::int64_t head = 0;
  std::int64_t interior = 0;
  std::int64_t tail = 0;
  std::int64_t overhead = 0;  // of busy
};
IterationSummary summary_of(const Parts& parts);
/// The same, interrupted by other processes.
IterationSummary interrupted(const Parts& parts);

/// One iteration a repetition.
RunSamples isolated(std::vector<RankSummaries> iterations);

/// A measured record of tpsp/gemm_rs on 2 ranks: 12 repetitions with some jitter around `run`.
struct Measured {
  std::string impl;
  RowKind kind = RowKind::schedule;
  Parts quiet;
  Parts run;
  std::optional<LayerCounts> layer = {};
};
Record measured_record(const Measured& measured);
/// A row of the same case that was not measured.
Record unmeasured_record(const std::string& impl, Outcome outcome, const std::string& reason);

/// compute_only, comm_only and four schedules.
std::vector<Record> comparison_records();
/// Every outcome once.
std::vector<Record> outcome_records();
/// The comparison's bounds, plain and one commfuse, as if of one whole layer.
std::vector<Record> layer_records();
/// Two token counts, plain and commfuse.
std::vector<Record> sweep_records();

}  // namespace commfuse::test

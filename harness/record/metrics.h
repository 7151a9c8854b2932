// SPDX-License-Identifier: Apache-2.0
// Metrics from timelines, by the formulas of docs/metrics.md. Pure arithmetic; times in
// nanoseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "harness/record/timeline.h"

namespace commfuse {

/// One iteration of one rank in numbers; a trivially copyable value, so ranks send it as bytes.
struct IterationSummary {
  std::int64_t window = 0;  // common start to end of the last op
  std::int64_t busy = 0;    // union of model, elementwise and overhead spans of the compute lane
  std::int64_t model = 0;   // time in model ops
  std::int64_t elementwise = 0;
  std::int64_t overhead = 0;  // time in accumulate and copy ops
  std::int64_t gap_head =
      0;  // not busy, before the first model op begins (the whole window if there is none)
  std::int64_t gap_interior = 0;
  std::int64_t gap_tail = 0;      // not busy, after the last model op ends
  std::int64_t tail_span = 0;     // window end - end of the last model op; 0 if there is none
  std::int64_t transfer = 0;      // union of transfers and collectives
  std::int64_t overlapped = 0;    // of that, under busy
  std::int64_t bytes_moved = 0;   // received by transfers, and by collectives
  std::int64_t compute_wall = 0;  // sum over compute spans with known cpu_ns
  std::int64_t compute_cpu = 0;   // their thread CPU time

  [[nodiscard]] std::int64_t gap() const { return gap_head + gap_interior + gap_tail; }
  /// Compute was interrupted by other processes: wall above thread CPU time by more than `share`
  /// (0.03 by default).
  [[nodiscard]] bool preempted(double share = 0.03) const;
};

/// Spans are clipped to the window; those outside it, or that end before they begin, are left out.
IterationSummary summarize(const Timeline& timeline);

/// T = t_whole + decomposition + contention + exposed + last_rank, an identity within a repetition,
/// on the rank with the largest compute_only window.
struct Waterfall {
  std::int32_t rank = 0;
  double t = 0;              // largest window over ranks of the run
  double t_whole = 0;        // window of compute_only
  double decomposition = 0;  // window of the quiet plan - t_whole
  double accumulate = 0;     // part of decomposition: time of the quiet plan in overhead ops, less
                             // that of compute_only
  double contention = 0;     // busy of the run - busy of the quiet plan
  double exposed = 0;        // gap of the run - gap of the quiet plan
  double exposed_head = 0, exposed_interior = 0,
         exposed_tail = 0;  // by place; they add up to exposed
  double last_rank = 0;     // t - window of the run on `rank`
};

/// The three runs of one repetition, indexed by rank. Throws std::invalid_argument unless all have
/// the same ranks.
Waterfall waterfall(std::span<const IterationSummary> compute_only,
                    std::span<const IterationSummary> quiet, std::span<const IterationSummary> run);

/// max(t_whole, bytes / bandwidth); a bandwidth of 0 means unlimited.
double bound_ns(double t_whole_ns, std::int64_t bytes, double bytes_per_second);
/// 1 - (t - t_whole) / (t_plain - t_whole), unclamped (Flux's overlap efficiency); empty if plain
/// exposes nothing.
std::optional<double> hidden_share(double t, double t_whole, double t_plain);
/// Share of communication time under compute, of merged intervals (HolisticTraceAnalysis); empty
/// without communication.
std::optional<double> overlap_hta(const IterationSummary& summary);
/// OSU: 1 - (t_overlapped - t_compute) / t_comm, unclamped; IMB-NBC: (t_comm + t_compute -
/// t_overlapped) / max(t_comm, t_compute).
std::optional<double> overlap_omb(double t_overlapped, double t_compute, double t_comm);
std::optional<double> overlap_imb_nbc(double t_overlapped, double t_compute, double t_comm);

/// A share of peak that says that the peak is too low: more than what times in whole nanoseconds
/// round away.
constexpr double kAbovePeak = 1.001;

/// bytes of the whole array / time, and nccl-tests' bus bandwidth factor for it; only for comm_only
/// rows.
double algbw(std::int64_t array_bytes, double t_ns);  // bytes per second
/// (P-1)/P for "all_gather", "reduce_scatter" and "all_to_all", 2(P-1)/P for "all_reduce"; throws
/// std::invalid_argument for other names.
double busbw_factor(std::string_view collective, std::int32_t ranks);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/record/metrics.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include <fmt/core.h>

#include "harness/record/intervals.h"

namespace commfuse {
namespace {

constexpr std::uint8_t kComputeLane = 0;

bool communicates(const Span& span) {
  return span.kind == SpanKind::transfer || span.kind == SpanKind::collective;
}

/// From the begin of the first model op to the end of the last one.
struct ModelExtent {
  bool any = false;
  std::int64_t begin = 0;
  std::int64_t end = 0;

  void add(const Interval& op) {
    begin = any ? std::min(begin, op.begin) : op.begin;
    end = any ? std::max(end, op.end) : op.end;
    any = true;
  }
};

void count_compute(const Span& span, std::int64_t duration, IterationSummary& summary) {
  if (span.kind == SpanKind::model) summary.model += duration;
  if (span.kind == SpanKind::elementwise) summary.elementwise += duration;
  if (span.kind == SpanKind::overhead) summary.overhead += duration;
  if (span.cpu_ns >= 0) {
    summary.compute_wall += span.end_ns - span.begin_ns;
    summary.compute_cpu += span.cpu_ns;
  }
}

std::int64_t idle_within(const std::vector<Interval>& busy, const Interval& place) {
  return place.end - place.begin - length(intersection(busy, std::span(&place, 1)));
}

void place_gaps(const std::vector<Interval>& busy, const ModelExtent& model, const Interval& window,
                IterationSummary& summary) {
  const std::int64_t gap = summary.window - summary.busy;
  if (!model.any) {
    summary.gap_head = gap;
    return;
  }
  summary.gap_head = idle_within(busy, {window.begin, model.begin});
  summary.gap_tail = idle_within(busy, {model.end, window.end});
  summary.gap_interior = gap - summary.gap_head - summary.gap_tail;
  summary.tail_span = window.end - model.end;
}

}  // namespace

bool IterationSummary::preempted(double share) const {
  return static_cast<double>(compute_wall - compute_cpu) > share * static_cast<double>(compute_cpu);
}

IterationSummary summarize(const Timeline& timeline) {
  const Interval window{timeline.start_ns, std::max(timeline.start_ns, timeline.end_ns)};
  IterationSummary summary;
  summary.window = window.end - window.begin;
  std::vector<Interval> busy;
  std::vector<Interval> communication;
  busy.reserve(timeline.spans.size());
  communication.reserve(timeline.spans.size());
  ModelExtent model;
  for (const Span& span : timeline.spans) {
    const Interval clipped{std::max(span.begin_ns, window.begin),
                           std::min(span.end_ns, window.end)};
    if (span.end_ns < span.begin_ns || clipped.end < clipped.begin) continue;
    const std::int64_t duration = clipped.end - clipped.begin;
    if (communicates(span)) {
      communication.push_back(clipped);
      if (!span.send) summary.bytes_moved += span.bytes;
    } else if (span.lane == kComputeLane) {
      busy.push_back(clipped);
      count_compute(span, duration, summary);
      if (span.kind == SpanKind::model) model.add(clipped);
    }
  }
  busy = union_of(std::move(busy));
  communication = union_of(std::move(communication));
  summary.busy = length(busy);
  summary.transfer = length(communication);
  summary.overlapped = length(intersection(busy, communication));
  place_gaps(busy, model, window, summary);
  return summary;
}

Waterfall waterfall(std::span<const IterationSummary> compute_only,
                    std::span<const IterationSummary> quiet,
                    std::span<const IterationSummary> run) {
  if (run.empty() || compute_only.size() != run.size() || quiet.size() != run.size()) {
    throw std::invalid_argument(
        fmt::format("a waterfall needs the same ranks in all three runs, got {} of compute_only, "
                    "{} of the quiet plan, {} of the run",
                    compute_only.size(), quiet.size(), run.size()));
  }
  const auto shorter = [](const IterationSummary& a, const IterationSummary& b) {
    return a.window < b.window;
  };
  const auto slowest = std::max_element(compute_only.begin(), compute_only.end(), shorter);
  const auto rank = static_cast<std::size_t>(slowest - compute_only.begin());
  const IterationSummary& silent = quiet[rank];
  const IterationSummary& real = run[rank];
  const std::int64_t t = std::max_element(run.begin(), run.end(), shorter)->window;

  Waterfall result;
  result.rank = static_cast<std::int32_t>(rank);
  result.t = static_cast<double>(t);
  result.t_whole = static_cast<double>(slowest->window);
  result.decomposition = static_cast<double>(silent.window - slowest->window);
  result.accumulate = static_cast<double>(silent.overhead - slowest->overhead);
  result.contention = static_cast<double>(real.busy - silent.busy);
  result.exposed = static_cast<double>(real.gap() - silent.gap());
  result.exposed_head = static_cast<double>(real.gap_head - silent.gap_head);
  result.exposed_interior = static_cast<double>(real.gap_interior - silent.gap_interior);
  result.exposed_tail = static_cast<double>(real.gap_tail - silent.gap_tail);
  result.last_rank = static_cast<double>(t - real.window);
  return result;
}

double bound_ns(double t_whole_ns, std::int64_t bytes, double bytes_per_second) {
  if (bytes_per_second <= 0) return t_whole_ns;
  return std::max(t_whole_ns, static_cast<double>(bytes) / bytes_per_second * 1e9);
}

std::optional<double> hidden_share(double t, double t_whole, double t_plain) {
  if (t_plain <= t_whole) return std::nullopt;
  return 1 - (t - t_whole) / (t_plain - t_whole);
}

std::optional<double> overlap_hta(const IterationSummary& summary) {
  if (summary.transfer <= 0) return std::nullopt;
  return static_cast<double>(summary.overlapped) / static_cast<double>(summary.transfer);
}

std::optional<double> overlap_omb(double t_overlapped, double t_compute, double t_comm) {
  if (t_comm <= 0) return std::nullopt;
  return 1 - (t_overlapped - t_compute) / t_comm;
}

std::optional<double> overlap_imb_nbc(double t_overlapped, double t_compute, double t_comm) {
  const double longer = std::max(t_comm, t_compute);
  if (longer <= 0) return std::nullopt;
  return (t_comm + t_compute - t_overlapped) / longer;
}

double algbw(std::int64_t array_bytes, double t_ns) {
  return static_cast<double>(array_bytes) / t_ns * 1e9;
}

double busbw_factor(std::string_view collective, std::int32_t ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  if (collective == "all_reduce") return 2 * share;
  if (collective == "all_gather" || collective == "reduce_scatter" || collective == "all_to_all") {
    return share;
  }
  throw std::invalid_argument(
      fmt::format("no bus bandwidth factor for '{}'; known are all_gather, reduce_scatter, "
                  "all_to_all, all_reduce",
                  collective));
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/compute_stamps.h"

#include <algorithm>
#include <cmath>

namespace commfuse {
namespace {

bool waits(const Program& program, EventId id) {
  return !program.dependencies(id).empty() || !program.earlier_iteration(id).empty();
}

const Span& span_of(const Program& program, std::size_t place) {
  return program.spans()[program.event(program.compute_lane()[place]).span];
}

double weight_of(const Span& span) {
  return static_cast<double>(span.kind == SpanKind::model ? span.flops : span.bytes);
}

}  // namespace

std::vector<ComputeRun> compute_runs(const Program& program) {
  std::vector<ComputeRun> runs;
  const std::span<const EventId> lane = program.compute_lane();
  for (std::size_t i = 0; i < lane.size(); ++i) {
    const bool waited = waits(program, lane[i]);
    const SpanKind kind = span_of(program, i).kind;
    const bool alone = kind == SpanKind::collective;  // each waits for peers
    if (runs.empty() || waited || alone || span_of(program, i - 1).kind != kind) {
      runs.push_back({i, 1, !runs.empty() && !waited});
    } else {
      ++runs.back().count;
    }
  }
  return runs;
}

void divide_run(const Program& program, const ComputeRun& run, std::int64_t begin_ns,
                std::int64_t end_ns, Timeline& timeline) {
  double total = 0;
  for (std::size_t i = run.first; i < run.first + run.count; ++i) {
    total += weight_of(span_of(program, i));
  }
  double done = 0;
  std::int64_t begin = begin_ns;
  for (std::size_t i = run.first; i < run.first + run.count; ++i) {
    done += weight_of(span_of(program, i));
    const double share = total > 0 ? done / total : 1;
    Span& span = timeline.spans[program.event(program.compute_lane()[i]).span];
    span.begin_ns = begin;
    span.end_ns = begin_ns + std::llround(share * static_cast<double>(end_ns - begin_ns));
    begin = span.end_ns;
  }
}

ComputeStamps::ComputeStamps(std::span<const ComputeRun> runs, Issue issue)
    : runs_(runs),
      record_flags_(issue == Issue::graph ? cudaEventRecordExternal : cudaEventRecordDefault) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    begins_.emplace_back(EventUse::timing);
    ends_.emplace_back(EventUse::timing);
  }
}

void ComputeStamps::run_begins(std::size_t run, cudaStream_t stream) {
  if (!runs_[run].follows) record(begins_[run], stream);
}

void ComputeStamps::run_ended(std::size_t run, cudaStream_t stream) { record(ends_[run], stream); }

void ComputeStamps::iteration_ended(cudaStream_t stream) { record(end_, stream); }

void ComputeStamps::record(cudaEvent_t event, cudaStream_t stream) const {
  CFB_CUDA(cudaEventRecordWithFlags(event, stream, record_flags_));
}

void ComputeStamps::read(const Program& program, cudaEvent_t origin, std::int64_t origin_ns,
                         Timeline& timeline) const {
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const cudaEvent_t begin = runs_[i].follows ? ends_[i - 1] : begins_[i];
    divide_run(program, runs_[i], origin_ns + elapsed_ns(origin, begin),
               origin_ns + elapsed_ns(origin, ends_[i]), timeline);
  }
  timeline.end_ns = origin_ns + elapsed_ns(origin, end_);
}

std::int64_t elapsed_ns(cudaEvent_t from, cudaEvent_t to) {
  float milliseconds = 0;
  CFB_CUDA(cudaEventElapsedTime(&milliseconds, from, to));
  return std::llround(static_cast<double>(milliseconds) * 1e6);
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// When the compute lane of an iteration worked, by timing events in its stream.
//
// What is stamped is runs: ops of one kind that follow each other with nothing to wait for between
// them. Stamping every op would put a gap after each. Within a run the time of an op is its share
// of the run by FLOPs (by bytes where there are none): an estimate, which no metric depends on,
// since they see the sums by kind, and where the compute lane was idle.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <vector>

#include "harness/cuda/cuda_resources.h"
#include "harness/cuda/issue.h"
#include "harness/program.h"
#include "harness/record/timeline.h"

namespace commfuse {

/// Places in a program's compute lane: [first, first + count).
struct ComputeRun {
  std::size_t first = 0;
  std::size_t count = 0;
  bool follows = false;  // begins where the run before ends, without a wait
};
std::vector<ComputeRun> compute_runs(const Program& program);

/// Divides [begin_ns, end_ns] among the spans of a run.
void divide_run(const Program& program, const ComputeRun& run, std::int64_t begin_ns,
                std::int64_t end_ns, Timeline& timeline);

/// The events of one iteration. They may be recorded again once they were read.
class ComputeStamps {
 public:
  /// `runs` outlives this. Where iterations are replayed, each replay records the events anew.
  ComputeStamps(std::span<const ComputeRun> runs, Issue issue);

  void run_begins(std::size_t run, cudaStream_t stream);
  void run_ended(std::size_t run, cudaStream_t stream);
  /// All lanes have ended.
  void iteration_ended(cudaStream_t stream);

  [[nodiscard]] cudaEvent_t end_of(std::size_t run) const { return ends_[run]; }
  [[nodiscard]] cudaEvent_t end() const { return end_; }
  /// Fills the compute spans of a timeline, and its end; all events are done. Times are those of
  /// `origin`, which happened at origin_ns.
  void read(const Program& program, cudaEvent_t origin, std::int64_t origin_ns,
            Timeline& timeline) const;

 private:
  void record(cudaEvent_t event, cudaStream_t stream) const;

  std::span<const ComputeRun> runs_;
  unsigned int record_flags_;
  std::vector<CudaEvent> begins_;
  std::vector<CudaEvent> ends_;
  CudaEvent end_{EventUse::timing};
};

/// Nanoseconds from one event to another, which are done.
std::int64_t elapsed_ns(cudaEvent_t from, cudaEvent_t to);

}  // namespace commfuse

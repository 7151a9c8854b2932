// SPDX-License-Identifier: Apache-2.0
// Names around what an op enqueues: NVTX ranges, which outside profilers show, and ids by which our
// own tracer finds the op behind a record.
#pragma once

#include <nvtx3/nvToolsExt.h>

#include <cstdint>
#include <vector>

#include "harness/cuda/cupti_tracer.h"
#include "harness/program.h"

namespace commfuse {

/// Unique over the ranks of a process: one for every event of a program, and for other things
/// counted from 0.
constexpr std::uint64_t kTraceIdsPerRank = std::uint64_t{1} << 40;
constexpr std::uint64_t event_trace_id(std::int32_t rank, EventId event) {
  return static_cast<std::uint64_t>(rank) * kTraceIdsPerRank + event + 1;
}
constexpr std::uint64_t sentinel_trace_id(std::int32_t rank, std::size_t sentinel) {
  return static_cast<std::uint64_t>(rank) * kTraceIdsPerRank + kTraceIdsPerRank / 2 + sentinel;
}

/// Host ranges: labels, never durations of device work.
class OpMarks {
 public:
  explicit OpMarks(const Program& program);

  /// From now on ids go to this tracer too; null ends that.
  void trace_with(CuptiTracer* tracer) { tracer_ = tracer; }

  class Range {
   public:
    Range(nvtxStringHandle_t name, CuptiTracer* tracer, std::uint64_t id);
    ~Range();
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;

   private:
    CuptiTracer* tracer_;
  };
  /// Around the calls that enqueue an event: an op, or one message of an exchange.
  [[nodiscard]] Range around(EventId event) const;
  /// Around all calls of one iteration.
  [[nodiscard]] Range around_iteration() const { return {iteration_, nullptr, 0}; }

 private:
  std::int32_t rank_;
  CuptiTracer* tracer_ = nullptr;
  nvtxStringHandle_t iteration_;
  std::vector<nvtxStringHandle_t> names_;  // by EventId
};

}  // namespace commfuse

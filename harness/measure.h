// SPDX-License-Identifier: Apache-2.0
// The sampling loop: runs under comparison interleaved by repetition, every iteration of every rank
// summarised.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/device_reading.h"
#include "harness/executor.h"
#include "harness/record/case_metrics.h"
#include "harness/sampler.h"
#include "harness/world/watchdog.h"
#include "harness/world/world.h"

namespace commfuse {

/// A plan that takes part in the comparison.
struct SampledPlan {
  std::string name;             // for messages
  Watchdog::Describe describe;  // of the ops that the executor reports
  PlanHandle handle = 0;
  std::size_t spans =
      0;  // of one iteration, so that timelines are allocated before anything is timed
};

struct Measurement {
  std::vector<RunSamples> runs;  // of all ranks, on rank 0 of `active`; empty elsewhere
  std::vector<std::vector<double>>
      times_ns;                  // on every rank: by run and repetition, the maximum over ranks
  std::vector<WireReport> wire;  // by run, over all ranks; on rank 0
  /// On every rank: by run, the mean host time in which an iteration was issued to the device, the
  /// maximum over ranks; 0 where nothing is issued ahead.
  std::vector<double> issue_ns;
  std::vector<DeviceSamples> device;  // by run, a sample per repetition; on rank 0
  SamplingReport report;
};

/// Told every sampled iteration of this rank, once it is over: the index of its plan, and its
/// spans.
using ObserveIteration = std::function<void(std::size_t, const Timeline&)>;

/// Collective over `active`. `iterations` per run and repetition; steady mode takes one more, whose
/// window is not whole. `read_device` is asked before and after each run of a repetition.
Measurement measure(World& active, Executor& executor, std::span<const SampledPlan> plans,
                    Mode mode, std::int32_t iterations, const SamplingRule& rule,
                    Watchdog& watchdog, const ReadDevice& read_device = {},
                    const ObserveIteration& observe = {});

}  // namespace commfuse

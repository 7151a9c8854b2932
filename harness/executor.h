// SPDX-License-Identifier: Apache-2.0
// What a backend gives the runner: storage for one workload on this rank, and plans run on it. A
// backend sees plans, never workloads' meaning or implementations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/record/timeline.h"
#include "impls/plan.h"

namespace commfuse {

/// isolated: the caller puts a barrier between iterations. steady: iterations follow each other at
/// once; dependencies and acknowledgements wrap around, and no message lands before its receive
/// view is free.
enum class Mode : std::uint8_t { isolated, steady };

/// How the times of ops are taken so that ranks which share a core or a device do not disturb each
/// other's: all ranks at once, by the CPU time in their spans; or one rank at a time, by begin and
/// end of the spans, while the others wait.
enum class OpTiming : std::uint8_t { together, in_turn };

/// A plan made ready: scratch allocated, libraries warmed. Owned by the executor that made it.
using PlanHandle = std::size_t;

/// An emulated link. bytes_per_second == 0: unlimited.
struct LinkSpeed {
  double bytes_per_second = 0;
  double latency_seconds = 0;
};

/// How well an emulated wire kept up with its link on this rank.
struct WireReport {
  std::int64_t transfers = 0;  // messages sent and collectives taken part in
  std::int64_t late = 0;       // of those, where copying ended after the computed time
  std::int64_t latest_ns = 0;  // by how much, at worst
  std::int64_t copy_ns = 0;    // spent copying and adding

  WireReport& operator+=(const WireReport& other) {
    transfers += other.transfers;
    late += other.late;
    latest_ns = std::max(latest_ns, other.latest_ns);
    copy_ns += other.copy_ns;
    return *this;
  }
};

/// One iteration as a profiler of the device saw it, which slows it down a little.
struct TracedIteration {
  std::string reason;  // why it does not count; empty if it does
  Timeline timeline;   // with the spans of transfers; of no use if the iteration does not count
  bool by_copy_engine = false;      // every copy of its transfers was
  std::int64_t unattributed = 0;    // activities that belong to no op
  std::int64_t uncertainty_ns = 0;  // by which times of this rank may be off against another's
};

class Watchdog;

/// What a backend cannot carry, found by every rank alike before anything runs: the case is skipped
/// with this reason.
class Unsupported : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One rank's executor for one case. Construction, prepare and run are collective over its group of
/// ranks.
class Executor {
 public:
  virtual ~Executor() = default;

  /// Throws Unsupported.
  virtual PlanHandle prepare(const Plan& plan) = 0;
  /// A plan without communication runs on the storage of the plan that it was made from.
  virtual PlanHandle prepare_quiet(const Plan& plan, PlanHandle origin) = 0;

  /// Sets values; float is rounded to the tensor's dtype. `packed` has view.elements() values.
  /// Tensor ids beyond the workload's are scratch of `plan`.
  virtual void write(PlanHandle plan, const View& view, std::span<const float> packed) = 0;
  virtual void read(PlanHandle plan, const View& view, std::span<float> packed) = 0;
  /// Fills every tensor that is not a weight, and the scratch of `plan`, with NaN.
  virtual void poison(PlanHandle plan) = 0;
  /// Weights are complete: executors that prepare them (expansion, transposition) do it now.
  virtual void weights_written() = 0;

  /// For the runs that follow. Executors with a real link ignore it.
  virtual void set_link(const LinkSpeed& link) = 0;
  /// Of the runs since the last call, or since construction; all zero where the link is real.
  virtual WireReport take_wire_report() { return {}; }
  /// From now on this is told every op of the compute lane that finished, by its index in the plan.
  virtual void report_to(Watchdog& watchdog) = 0;

  /// Runs `iterations` iterations and appends nothing: fills timelines[i] (spans preallocated by
  /// prepare; allocates nothing once the vectors have their capacity). isolated: exactly one
  /// iteration, starting at the return of a barrier that run() makes itself.
  virtual void run(PlanHandle plan, Mode mode, std::span<Timeline> timelines) = 0;
  /// Runs that many isolated iterations, and one before them, under a profiler; the same number on
  /// every rank. Empty where there is none.
  virtual std::vector<TracedIteration> trace(PlanHandle /*plan*/, std::int32_t /*iterations*/) {
    return {};
  }
  /// Host time in which the last run() issued an iteration to its device, on average in ns. A
  /// device that is done sooner waits for the host. 0 where nothing is issued ahead.
  [[nodiscard]] virtual std::int64_t issue_ns_of_last_run() const { return 0; }
  /// What a record says about how this executor computes and communicates.
  [[nodiscard]] virtual std::map<std::string, std::string> facts() const { return {}; }
  /// And about one plan.
  [[nodiscard]] virtual std::map<std::string, std::string> plan_facts(PlanHandle /*plan*/) const {
    return {};
  }
};

}  // namespace commfuse

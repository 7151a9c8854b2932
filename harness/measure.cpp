// SPDX-License-Identifier: Apache-2.0
#include "harness/measure.h"

#include <algorithm>

#include "harness/world/wire.h"

namespace commfuse {
namespace {

/// Iterations of one run on this rank in one repetition.
class RunOnce {
 public:
  RunOnce(Mode mode, std::int32_t iterations, const ObserveIteration& observe)
      : mode_(mode), iterations_(static_cast<std::size_t>(iterations)), observe_(observe) {
    timelines_.resize(mode == Mode::steady ? iterations_ + 1 : 1);
  }

  std::vector<IterationSummary> operator()(World& active, Executor& executor,
                                           const SampledPlan& plan, std::size_t run) {
    for (Timeline& timeline : timelines_) timeline.spans.reserve(plan.spans);
    std::vector<IterationSummary> summaries;
    if (mode_ == Mode::steady) {
      active.barrier();
      executor.run(plan.handle, mode_, timelines_);
      // The first window starts with a pipeline that is still empty.
      for (std::size_t i = 1; i < timelines_.size(); ++i)
        summaries.push_back(summary_of(timelines_[i], run));
      return summaries;
    }
    for (std::size_t i = 0; i < iterations_; ++i) {
      active.barrier();  // groups of a mesh start together; the group's own barrier follows inside
      executor.run(plan.handle, mode_, timelines_);
      summaries.push_back(summary_of(timelines_[0], run));
    }
    return summaries;
  }

 private:
  IterationSummary summary_of(const Timeline& timeline, std::size_t run) const {
    if (observe_) observe_(run, timeline);
    return summarize(timeline);
  }

  Mode mode_;
  std::size_t iterations_;
  const ObserveIteration& observe_;
  std::vector<Timeline> timelines_;
};

double mean_window(const std::vector<IterationSummary>& summaries) {
  double sum = 0;
  for (const IterationSummary& summary : summaries) sum += static_cast<double>(summary.window);
  return sum / static_cast<double>(summaries.size());
}

/// Every rank's flat list of summaries -> by run, repetition, iteration, rank.
std::vector<RunSamples> assemble(const std::vector<std::vector<std::byte>>& bytes_by_rank,
                                 std::size_t runs, std::size_t repetitions,
                                 std::size_t iterations) {
  std::vector<RunSamples> samples(runs);
  if (repetitions == 0) return samples;
  for (RunSamples& run : samples) {
    run.repetitions.assign(repetitions,
                           Repetition(iterations, RankSummaries(bytes_by_rank.size())));
  }
  for (std::size_t rank = 0; rank < bytes_by_rank.size(); ++rank) {
    const auto flat = values_of<IterationSummary>(bytes_by_rank[rank]);
    std::size_t i = 0;
    for (RunSamples& run : samples) {
      for (Repetition& repetition : run.repetitions) {
        for (RankSummaries& iteration : repetition) iteration[rank] = flat[i++];
      }
    }
  }
  return samples;
}

std::vector<WireReport> merge(const std::vector<std::vector<std::byte>>& bytes_by_rank,
                              std::size_t runs) {
  std::vector<WireReport> merged(runs);
  for (const auto& bytes : bytes_by_rank) {
    const auto reports = values_of<WireReport>(bytes);
    for (std::size_t run = 0; run < runs; ++run) merged[run] += reports[run];
  }
  return merged;
}

}  // namespace

Measurement measure(World& active, Executor& executor, std::span<const SampledPlan> plans,
                    Mode mode, std::int32_t iterations, const SamplingRule& rule,
                    Watchdog& watchdog, const ReadDevice& read_device,
                    const ObserveIteration& observe) {
  Sampler sampler(active, rule, plans.size());
  RunOnce run_once(mode, iterations, observe);
  std::vector<std::vector<IterationSummary>> mine(plans.size());
  std::vector<WireReport> wire(plans.size());
  std::vector<double> issue_ns(plans.size(), 0);
  std::vector<std::vector<DeviceSample>> device(plans.size());
  const auto reading = [&] { return read_device ? read_device() : std::nullopt; };
  executor.take_wire_report();  // of warming up
  while (const auto order = sampler.next()) {
    for (const std::uint32_t run : *order) {
      const auto phase = watchdog.guard("sampling " + plans[run].name, plans[run].describe);
      const auto before = reading();
      const auto summaries = run_once(active, executor, plans[run], run);
      device[run].push_back(sample_between(before, reading()));
      wire[run] += executor.take_wire_report();
      issue_ns[run] += static_cast<double>(executor.issue_ns_of_last_run());
      sampler.record(run, active.max(mean_window(summaries)));
      mine[run].insert(mine[run].end(), summaries.begin(), summaries.end());
    }
  }
  Measurement measurement;
  measurement.report = sampler.report();
  std::vector<IterationSummary> flat;
  for (std::uint32_t run = 0; run < plans.size(); ++run) {
    measurement.times_ns.push_back(sampler.times(run));
    const auto repetitions =
        static_cast<double>(std::max<std::size_t>(sampler.times(run).size(), 1));
    measurement.issue_ns.push_back(active.max(issue_ns[run]) / repetitions);
    flat.insert(flat.end(), mine[run].begin(), mine[run].end());
  }
  const auto gathered = active.gather(std::as_bytes(std::span(flat)), 0);
  const auto reports = active.gather(std::as_bytes(std::span(wire)), 0);
  measurement.device = gather_device_samples(active, device);
  if (active.rank() == 0) {
    measurement.wire = merge(reports, plans.size());
    measurement.runs =
        assemble(gathered, plans.size(), static_cast<std::size_t>(measurement.report.repetitions),
                 static_cast<std::size_t>(iterations));
  }
  return measurement;
}

}  // namespace commfuse

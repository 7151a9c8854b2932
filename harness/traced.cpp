// SPDX-License-Identifier: Apache-2.0
#include "harness/traced.h"

#include <algorithm>
#include <string>
#include <vector>

#include "harness/record/statistics.h"
#include "harness/world/clock_alignment.h"
#include "harness/world/wire.h"

namespace commfuse {
namespace {

constexpr std::int32_t kTracedIterations = 20;

/// Medians over counted iterations.
class Medians {
 public:
  void add(double value) { values_.push_back(value); }
  [[nodiscard]] nlohmann::ordered_json value() const {
    if (values_.empty()) return nullptr;
    return median(values_);
  }

 private:
  std::vector<double> values_;
};

/// Where ranks have clocks of their own: how they were laid on that of rank 0. Collective.
void add_clocks(nlohmann::ordered_json& details, World& active, const ClockAlignment& own) {
  if (active.one_node()) return;
  for (const auto& bytes : active.gather(std::as_bytes(std::span(&own, 1)), 0)) {
    const ClockAlignment clock = values_of<ClockAlignment>(bytes).front();
    if (details.is_null()) continue;
    details["clocks"].push_back({{"offset_ns", clock.before.offset_ns},
                                 {"drift_ppm", clock.drift_ppm()},
                                 {"uncertainty_ns", clock.uncertainty_ns()}});
  }
}

}  // namespace

nlohmann::ordered_json traced_details(std::span<const std::vector<TracedSample>> by_rank,
                                      const std::string& reason, double untraced_ns) {
  const std::size_t iterations = by_rank.front().size();
  std::size_t counted = 0;
  bool by_copy_engine = true;
  std::int64_t unattributed = 0;
  std::int64_t uncertainty_ns = 0;
  Medians window;
  Medians ratio;
  Medians transfer;
  Medians overlap;
  Medians skew;
  for (std::size_t i = 0; i < iterations; ++i) {
    const auto all = [&](auto member) {
      return std::ranges::all_of(by_rank, [&](const auto& rank) { return rank[i].*member; });
    };
    if (!all(&TracedSample::counts)) continue;
    ++counted;
    by_copy_engine = by_copy_engine && all(&TracedSample::by_copy_engine);
    for (const auto& rank : by_rank) {
      unattributed += rank[i].unattributed;
      uncertainty_ns = std::max(uncertainty_ns, rank[i].uncertainty_ns);
    }
    const auto slowest = std::ranges::max_element(
        by_rank, {}, [&](const auto& rank) { return rank[i].summary.window; });
    const IterationSummary& summary = (*slowest)[i].summary;
    window.add(static_cast<double>(summary.window));
    if (untraced_ns > 0) ratio.add(static_cast<double>(summary.window) / untraced_ns);
    transfer.add(static_cast<double>(summary.transfer));
    const auto [first, last] = std::ranges::minmax_element(
        by_rank, {}, [&](const auto& rank) { return rank[i].start_ns; });
    skew.add(static_cast<double>((*last)[i].start_ns - (*first)[i].start_ns));
    if (const auto share = overlap_hta(summary)) overlap.add(*share);
  }
  nlohmann::ordered_json details{{"iterations", iterations}, {"counted", counted}};
  if (counted < iterations) details["not_counted"] = reason;
  if (counted == 0) return details;
  details["by_copy_engine"] = by_copy_engine;
  details["clock_uncertainty_ns"] = uncertainty_ns;
  if (unattributed > 0) details["unattributed"] = unattributed;
  details["window_ns"] = window.value();
  details["traced_over_untraced"] = ratio.value();
  details["transfer_ns"] = transfer.value();
  details["overlap_hta"] = overlap.value();
  details["start_skew_ns"] = skew.value();
  return details;
}

nlohmann::ordered_json trace_plan(World& active, Executor& executor, PlanHandle plan,
                                  double untraced_ns) {
  ClockAlignment clock;
  clock.before = compare_clocks(active);
  const std::vector<TracedIteration> iterations = executor.trace(plan, kTracedIterations);
  if (active.max(iterations.empty() ? 0 : 1) == 0) return nullptr;
  clock.after = compare_clocks(active);
  std::vector<TracedSample> own;
  std::string reason;
  for (const TracedIteration& traced : iterations) {
    if (reason.empty()) reason = traced.reason;
    own.push_back({summarize(traced.timeline), clock.on_root(traced.timeline.start_ns),
                   traced.reason.empty(), traced.by_copy_engine, traced.unattributed,
                   traced.uncertainty_ns + clock.uncertainty_ns()});
  }
  reason = first_text(active, reason);
  std::vector<std::vector<TracedSample>> by_rank;
  std::size_t fewest = own.size();
  for (const auto& bytes : active.gather(std::as_bytes(std::span(own)), 0)) {
    by_rank.push_back(values_of<TracedSample>(bytes));
    fewest = std::min(fewest, by_rank.back().size());
  }
  auto details = by_rank.empty() || fewest == 0 ? nlohmann::ordered_json(nullptr)
                                                : traced_details(by_rank, reason, untraced_ns);
  add_clocks(details, active, clock);
  return details;
}

}  // namespace commfuse

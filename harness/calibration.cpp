// SPDX-License-Identifier: Apache-2.0
#include "harness/calibration.h"

#include <array>
#include <cmath>
#include <vector>

#include "harness/record/statistics.h"

namespace commfuse {
namespace {

constexpr std::int32_t kRepetitions = 5;  // of one try
constexpr std::int32_t kTries = 4;
constexpr double kCloseEnough = 0.03;

}  // namespace

double ratio_error(std::span<const double> comm_only_ns, std::span<const double> compute_only_ns,
                   double ratio) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < comm_only_ns.size(); ++i) {
    ratios.push_back(comm_only_ns[i] / compute_only_ns[i]);
  }
  return median(ratios) / ratio;
}

LinkSpeed calibrate_link(World& active, Executor& executor, const LinkBounds& bounds, double ratio,
                         const SamplingRule& rule, Watchdog& watchdog) {
  SamplingRule few = rule;
  few.repetitions = kRepetitions;
  const auto sample = [&](std::span<const SampledPlan> plans) {
    return measure(active, executor, plans, Mode::isolated, 1, few, watchdog).times_ns;
  };
  const std::array plans{bounds.compute_only, bounds.comm_only};
  const double first_ns = median(sample(std::span(plans).first(1))[0]);
  LinkSpeed link{static_cast<double>(bounds.bytes_sent) / (first_ns * 1e-9 * ratio), 0};
  for (std::int32_t i = 0; i < kTries; ++i) {
    executor.set_link(link);
    const auto times = sample(plans);
    const double error = ratio_error(times[1], times[0], ratio);
    link.bytes_per_second *= error;
    if (std::abs(error - 1) < kCloseEnough) break;
  }
  return link;
}

}  // namespace commfuse

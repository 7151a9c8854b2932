// SPDX-License-Identifier: Apache-2.0
#include "harness/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "harness/record/statistics.h"
#include "harness/world/wire.h"

namespace commfuse {

Sampler::Sampler(World& world, const SamplingRule& rule, std::size_t runs)
    : world_(world),
      rule_(rule),
      random_(rule.seed),
      start_(std::chrono::steady_clock::now()),
      times_(runs) {
  report_.seed = rule.seed;
}

void Sampler::record(std::uint32_t run, double time_ns) { times_[run].push_back(time_ns); }

double Sampler::worst_precision() const {
  double worst = 0;
  for (const auto& times : times_) worst = std::max(worst, relative_half_width(times));
  return worst;
}

std::string Sampler::reason_to_stop() {
  const std::int32_t done = report_.repetitions;
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start_;
  report_.wall_s = wall.count();
  if (rule_.repetitions > 0 && done >= rule_.repetitions) {
    report_.converged = worst_precision() <= rule_.precision;
    return "as many repetitions as asked for";
  }
  // Another repetition takes as long as the average one so far.
  if (done > 0 && wall.count() * (done + 1) / done > rule_.time_limit_s) return "time limit";
  if (rule_.repetitions > 0 || done < kFewest) return "";
  const double precision = worst_precision();
  if (precision <= rule_.precision) {
    report_.converged = true;
    return "precision reached";
  }
  if (done >= kMost) return "most repetitions";
  // With honest noise four times the samples halve the interval; where twice the samples gain less
  // than a tenth, more will not help.
  if (done >= next_look_) {
    if (precision > 0.9 * precision_at_last_look_)
      return "plateau: more repetitions no longer narrow the interval";
    precision_at_last_look_ = precision;
    next_look_ = 2 * done;
  }
  return "";
}

std::optional<std::vector<std::uint32_t>> Sampler::next() {
  std::vector<std::uint32_t> order;
  if (world_.rank() == 0) {
    report_.reason = reason_to_stop();
    if (report_.reason.empty()) {
      order.resize(times_.size());
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random_);
    }
  }
  order = broadcast_values<std::uint32_t>(world_, order, 0);
  if (order.empty()) return std::nullopt;
  report_.order.push_back(order);
  ++report_.repetitions;
  return order;
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/device_reading.h"

#include <algorithm>

#include "harness/world/wire.h"

namespace commfuse {
namespace {

/// Mean of what is known of two values; 0 is not known.
double mean_known(double first, double second) {
  if (first <= 0) return std::max(second, 0.0);
  return second <= 0 ? first : (first + second) / 2;
}

class Mean {
 public:
  void add(double value) {
    sum_ += value;
    ++count_;
    least_ = count_ == 1 ? value : std::min(least_, value);
    most_ = count_ == 1 ? value : std::max(most_, value);
  }
  [[nodiscard]] bool any() const { return count_ > 0; }
  [[nodiscard]] double value() const { return sum_ / static_cast<double>(count_); }
  [[nodiscard]] double least() const { return least_; }
  [[nodiscard]] double most() const { return most_; }

 private:
  double sum_ = 0, least_ = 0, most_ = 0;
  std::int64_t count_ = 0;
};

nlohmann::ordered_json clock_details(const DeviceSamples& samples) {
  Mean clock;
  nlohmann::ordered_json per_rank = nlohmann::ordered_json::array();
  for (const auto& rank : samples) {
    nlohmann::ordered_json row = nlohmann::ordered_json::array();
    for (const DeviceSample& sample : rank) {
      if (sample.clock_mhz > 0) clock.add(sample.clock_mhz);
      row.push_back(sample.clock_mhz);
    }
    per_rank.push_back(std::move(row));
  }
  if (!clock.any()) return nullptr;
  return {{"mean", clock.value()},
          {"least", clock.least()},
          {"most", clock.most()},
          {"per_rank", std::move(per_rank)}};
}

/// The counter of energy, if every sample has it: readings of power may be means of a whole second.
void add_power(const DeviceSamples& samples, nlohmann::ordered_json& details) {
  Mean counted;
  Mean read;
  double seconds = 0;
  bool complete = true;
  for (const auto& rank : samples) {
    double energy_j = 0;
    double rank_seconds = 0;
    for (const DeviceSample& sample : rank) {
      if (sample.power_w > 0) read.add(sample.power_w);
      complete = complete && sample.energy_j >= 0;
      energy_j += sample.energy_j;
      rank_seconds += sample.seconds;
    }
    if (rank_seconds > 0) counted.add(energy_j / rank_seconds);
    seconds = std::max(seconds, rank_seconds);
  }
  if (complete && counted.any()) {
    details["power_w"] = counted.value();
    details["power_by"] = "energy counter";
    details["power_over_s"] = seconds;
  } else if (read.any()) {
    details["power_w"] = read.value();
    details["power_by"] = "readings";
  }
}

}  // namespace

std::vector<std::string> names_of_limits(std::uint32_t limits) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kClockLimits.size(); ++i) {
    if ((limits >> i & 1U) != 0) names.emplace_back(kClockLimits[i]);
  }
  return names;
}

DeviceSample sample_between(const std::optional<DeviceReading>& before,
                            const std::optional<DeviceReading>& after) {
  DeviceSample sample;
  if (!before || !after) return sample;
  sample.clock_mhz = mean_known(before->sm_clock_mhz, after->sm_clock_mhz);
  sample.power_w = mean_known(before->power_w, after->power_w);
  sample.seconds = static_cast<double>(after->time_ns - before->time_ns) * 1e-9;
  if (before->energy_mj >= 0 && after->energy_mj >= before->energy_mj) {
    sample.energy_j = static_cast<double>(after->energy_mj - before->energy_mj) * 1e-3;
  }
  sample.limits = before->limits | after->limits;
  return sample;
}

std::vector<DeviceSamples> gather_device_samples(World& world,
                                                 std::span<const std::vector<DeviceSample>> own) {
  std::vector<DeviceSample> flat;
  for (const auto& run : own) flat.insert(flat.end(), run.begin(), run.end());
  std::vector<DeviceSamples> by_run(world.rank() == 0 ? own.size() : 0);
  for (const auto& bytes : world.gather(std::as_bytes(std::span(flat)), 0)) {
    const auto samples = values_of<DeviceSample>(bytes);
    auto next = samples.begin();
    for (std::size_t run = 0; run < own.size(); ++run) {
      const auto end = next + static_cast<std::ptrdiff_t>(own[run].size());
      by_run[run].emplace_back(next, end);
      next = end;
    }
  }
  return by_run;
}

nlohmann::ordered_json device_state_details(const DeviceSamples& samples) {
  nlohmann::ordered_json details = nlohmann::ordered_json::object();
  nlohmann::ordered_json clock = clock_details(samples);
  if (!clock.is_null()) details["clock_mhz"] = std::move(clock);
  add_power(samples, details);
  if (details.empty()) return nullptr;
  std::uint32_t limits = 0;
  for (const auto& rank : samples) {
    for (const DeviceSample& sample : rank) limits |= sample.limits;
  }
  details["limits"] = names_of_limits(limits);
  return details;
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// How fast a device was allowed to be while it was measured: clock, power, and what held the clock
// down. Read before and after each run of a repetition, never inside a timed window.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/world/world.h"

namespace commfuse {

/// What can hold a device's clock below the one it would like to have.
constexpr std::array<std::string_view, 9> kClockLimits{
    "clock_setting", "power_cap",   "hw_slowdown",    "sync_boost", "sw_thermal",
    "hw_thermal",    "power_brake", "display_clocks", "other"};

/// The names of the bits that are set; bit i stands for kClockLimits[i].
std::vector<std::string> names_of_limits(std::uint32_t limits);

/// A device at one moment.
struct DeviceReading {
  std::int64_t time_ns = 0;     // of the monotonic clock
  double sm_clock_mhz = 0;      // 0: not known
  double power_w = 0;           // 0: not known, or there is a counter
  std::int64_t energy_mj = -1;  // since the driver was loaded; -1: there is no counter
  std::uint32_t limits = 0;     // bit i: kClockLimits[i]
};

/// Nothing where there is no device, or it cannot be read.
using ReadDevice = std::function<std::optional<DeviceReading>()>;

/// What two readings say about the run between them.
struct DeviceSample {
  double clock_mhz = 0;      // mean of both; 0: not known
  double power_w = 0;        // mean of both; 0: not known
  double energy_j = -1;      // spent between them; -1: there is no counter
  double seconds = 0;        // between them
  std::uint32_t limits = 0;  // of either
};
DeviceSample sample_between(const std::optional<DeviceReading>& before,
                            const std::optional<DeviceReading>& after);

/// By rank and repetition.
using DeviceSamples = std::vector<std::vector<DeviceSample>>;

/// Collective. `own` are this rank's samples by run; by run on rank 0, empty elsewhere.
std::vector<DeviceSamples> gather_device_samples(World& world,
                                                 std::span<const std::vector<DeviceSample>> own);

/// `details.device_state` of docs/metrics.md; null where no rank could read its device.
nlohmann::ordered_json device_state_details(const DeviceSamples& samples);

}  // namespace commfuse

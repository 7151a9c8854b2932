// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/device_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "harness/world/clock.h"

namespace commfuse {
namespace {

constexpr unsigned int kMostLinks = 18;
constexpr int kTriesToListProcesses = 3;  // some may start meanwhile

/// NVML's reasons in the order of kClockLimits; what else it may say is "other", but for 1, idle.
constexpr std::array<unsigned long long, 8> kReasons{0x2, 0x4, 0x8, 0x10, 0x20, 0x40, 0x80, 0x100};
constexpr unsigned long long kIdle = 1;
static_assert(kReasons.size() + 1 == kClockLimits.size());

std::uint32_t limits_of(unsigned long long reasons) {
  std::uint32_t limits = 0;
  reasons &= ~kIdle;
  for (std::size_t i = 0; i < kReasons.size(); ++i) {
    if ((reasons & kReasons[i]) != 0) limits |= 1U << i;
    reasons &= ~kReasons[i];
  }
  if (reasons != 0) limits |= 1U << kReasons.size();
  return limits;
}

/// What `function` writes through its last argument; nothing if there is none or it fails.
template <class Value, class Function, class... Arguments>
std::optional<Value> ask(Function function, nvml::Device device, Arguments... arguments) {
  Value value{};
  if (function == nullptr || function(device, arguments..., &value) != nvml::kSuccess) return {};
  return value;
}

template <class Value, class From>
std::optional<Value> converted(const std::optional<From>& value) {
  return value ? std::optional(static_cast<Value>(*value)) : std::nullopt;
}

}  // namespace

DeviceState::DeviceState(const NvmlLibrary& nvml, const std::string& pci) : nvml_(nvml) {
  const nvml::Result result = nvml_->device_by_pci(pci.c_str(), &device_);
  if (result != nvml::kSuccess) {
    throw std::runtime_error(
        fmt::format("NVML does not show device {}: {}", pci, nvml_->error_string(result)));
  }
}

DeviceReading DeviceState::read() const {
  DeviceReading reading;
  reading.sm_clock_mhz = sm_clock_mhz().value_or(0);
  const auto energy = ask<unsigned long long>(nvml_->energy, device_);
  reading.time_ns = monotonic_ns();  // next to the counter, whose differences are divided by it
  reading.energy_mj = converted<std::int64_t>(energy).value_or(-1);
  // The counter is better, and each question takes time.
  if (!energy) reading.power_w = ask<unsigned int>(nvml_->power, device_).value_or(0) * 1e-3;
  reading.limits = limits().value_or(0);
  return reading;
}

std::optional<double> DeviceState::sm_clock_mhz() const {
  return converted<double>(ask<unsigned int>(nvml_->clock, device_, nvml::kSmClock));
}

std::optional<double> DeviceState::application_clock_mhz() const {
  return converted<double>(
      ask<unsigned int>(nvml_->application_clock, device_, nvml::kGraphicsClock));
}

std::optional<double> DeviceState::default_application_clock_mhz() const {
  return converted<double>(
      ask<unsigned int>(nvml_->default_application_clock, device_, nvml::kGraphicsClock));
}

std::optional<double> DeviceState::max_clock_mhz() const {
  return converted<double>(ask<unsigned int>(nvml_->max_clock, device_, nvml::kSmClock));
}

std::optional<std::uint32_t> DeviceState::limits() const {
  const auto reasons = ask<unsigned long long>(nvml_->clock_limits, device_);
  return reasons ? std::optional(limits_of(*reasons)) : std::nullopt;
}

std::optional<bool> DeviceState::ecc() const {
  int now = 0;
  int after_restart = 0;
  if (nvml_->ecc == nullptr || nvml_->ecc(device_, &now, &after_restart) != nvml::kSuccess) {
    return {};
  }
  return now != 0;
}

std::optional<bool> DeviceState::persistence() const {
  return converted<bool>(ask<int>(nvml_->persistence, device_));
}

std::optional<nvml::ComputeMode> DeviceState::compute_mode() const {
  return converted<nvml::ComputeMode>(ask<int>(nvml_->compute_mode, device_));
}

std::optional<std::vector<std::int64_t>> DeviceState::processes() const {
  if (nvml_->processes == nullptr) return {};
  unsigned int room = 16;
  for (int i = 0; i < kTriesToListProcesses; ++i) {
    std::vector<nvml::Process> all(room);
    unsigned int count = room;
    const nvml::Result result = nvml_->processes(device_, &count, all.data());
    if (result == nvml::kInsufficientSize) {
      room = 2 * std::max(count, room);
      continue;
    }
    if (result != nvml::kSuccess) return {};
    std::vector<std::int64_t> pids;
    for (unsigned int p = 0; p < std::min(count, room); ++p) pids.push_back(all[p].pid);
    return pids;
  }
  return {};
}

std::optional<NvLinks> DeviceState::links() const {
  if (nvml_->link_state == nullptr) return {};
  NvLinks links;
  for (unsigned int link = 0; link < kMostLinks; ++link) {
    const auto active = ask<int>(nvml_->link_state, device_, link);
    if (!active) continue;  // the device has no such link
    ++(*active != 0 ? links.active : links.inactive);
  }
  return links;
}

std::optional<nvml::Fabric> DeviceState::fabric() const {
  return ask<nvml::Fabric>(nvml_->fabric, device_);
}

}  // namespace commfuse

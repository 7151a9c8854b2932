// SPDX-License-Identifier: Apache-2.0
// What the devices of this launch are doing: clocks, what holds them down, and who else is there.
#include <algorithm>

#include "harness/cuda/device_list.h"
#include "harness/cuda/machine_findings.h"

namespace commfuse {
namespace {

using State = SelfTestPart::State;

constexpr std::uint32_t kClockSetting = 1U << 0;
constexpr std::uint32_t kDisplayClocks = 1U << 7;
static_assert(kClockLimits[0] == "clock_setting" && kClockLimits[7] == "display_clocks");

std::vector<SeenDevice> used_devices(std::span<const RankFacts> ranks) {
  std::vector<SeenDevice> devices = seen_devices(ranks);
  std::erase_if(devices, [](const SeenDevice& device) { return !device.used(); });
  return devices;
}

std::string megahertz(const std::optional<double>& clock) {
  return clock ? fmt::format("{:.0f} MHz", *clock) : "unknown";
}

std::string clocks_text(const SeenDevice& device) {
  const DeviceFacts& facts = *device.facts;
  return fmt::format("SM clock now {}, set {}, at most {}", megahertz(facts.clock_mhz),
                     megahertz(facts.application_clock_mhz), megahertz(facts.max_clock_mhz));
}

/// A lock shows as a limit of the clock, or as an application clock that is not the default. One
/// above all that the device reaches shows as neither, and locks nothing.
bool is_locked(const DeviceFacts& facts) {
  if ((facts.limits.value_or(0) & kClockSetting) != 0) return true;
  return facts.application_clock_mhz && facts.default_application_clock_mhz &&
         *facts.application_clock_mhz != *facts.default_application_clock_mhz;
}

/// What takes the clock below its setting.
std::uint32_t disturbance(const DeviceFacts& facts) {
  return facts.limits.value_or(0) & ~(kClockSetting | kDisplayClocks);
}

struct Others {
  std::size_t count = 0;
  std::string text;  // empty: none
  bool known = true;
};

/// Processes on a device beside those of this launch. In a container the driver's numbers are not
/// ours; then only their count says something.
Others others_on(const SeenDevice& device) {
  const std::vector<std::int64_t>& all = *device.facts->processes;
  std::vector<std::int64_t> others;
  for (const std::int64_t process : all) {
    if (std::ranges::count(device.processes, process) == 0) others.push_back(process);
  }
  const std::size_t own = all.size() - others.size();
  if (others.empty()) return {0, "", own > 0};  // an empty list hides ours, which have a context
  if (own > 0) {
    return {others.size(), fmt::format("processes {} too", fmt::join(others, ", "))};
  }
  // None is known as ours, though ours have a context: they go by other numbers.
  if (all.size() <= device.processes.size()) return {0, "", false};
  const std::size_t more = all.size() - device.processes.size();
  return {more, fmt::format("{} other {} too, numbered as outside of this container", more,
                            more == 1 ? "process" : "processes")};
}

}  // namespace

Finding clocks_finding(std::span<const RankFacts> ranks) {
  const char* const name = "clocks";
  const std::vector<SeenDevice> devices = used_devices(ranks);
  const auto unread = [](const SeenDevice& device) { return !device.facts->clock_mhz; };
  if (std::ranges::any_of(devices, unread)) {
    return {{name, unknown(devices), State::missing}, "clocks are not known"};
  }
  const std::string text = grouped(devices, clocks_text);
  const auto free =
      std::ranges::count_if(devices, [](const SeenDevice& d) { return !is_locked(*d.facts); });
  if (free == 0) return {{name, text + "; locked", State::ok}};
  return {
      {name,
       fmt::format("{}; no lock is seen on {} of {}: nvidia-smi -lgc MHZ for times that repeat, "
                   "-rgc ends it",
                   text, free, devices.size()),
       State::warning},
      "clocks are not locked"};
}

Finding limits_finding(std::span<const RankFacts> ranks) {
  const char* const name = "throttling";
  const std::vector<SeenDevice> devices = used_devices(ranks);
  if (std::ranges::any_of(devices, [](const SeenDevice& d) { return !d.facts->limits; })) {
    return {{name, unknown(devices), State::missing}, "throttling is not known"};
  }
  const std::string text = listed(devices, [](const SeenDevice& device) {
    return fmt::format("{}", fmt::join(names_of_limits(disturbance(*device.facts)), ", "));
  });
  if (text.empty()) return {{name, "nothing holds a clock below its setting", State::ok}};
  return {{name,
           fmt::format("{}; a lower lock (nvidia-smi -lgc) that power and cooling can hold makes "
                       "times repeat",
                       text),
           State::warning},
          "a device is throttled"};
}

Finding processes_finding(std::span<const RankFacts> ranks) {
  const char* const name = "other processes";
  const std::vector<SeenDevice> devices = used_devices(ranks);
  if (std::ranges::any_of(devices, [](const SeenDevice& d) { return !d.facts->processes; })) {
    return {{name, unknown(devices), State::missing}, "other processes are not known"};
  }
  const std::string text =
      listed(devices, [](const SeenDevice& device) { return others_on(device).text; });
  if (!text.empty()) {
    return {{name, fmt::format("{}; end them, or take other devices", text), State::warning},
            "other processes use a device"};
  }
  const auto told_apart = [](const SeenDevice& device) { return others_on(device).known; };
  if (!std::ranges::all_of(devices, told_apart)) {
    return {{name,
             "unknown: this launch's own are not among those that are listed, as in a container",
             State::missing}};
  }
  return {{name, "none on the devices of this launch", State::ok}};
}

Finding compute_mode_finding(std::span<const RankFacts> ranks) {
  const char* const name = "compute mode";
  const std::vector<SeenDevice> devices = used_devices(ranks);
  if (std::ranges::any_of(devices, [](const SeenDevice& d) { return !d.facts->compute_mode; })) {
    return {{name, unknown(devices), State::missing}};
  }
  const std::string text = listed(devices, [](const SeenDevice& device) -> std::string {
    const int mode = *device.facts->compute_mode;
    if (mode == nvml::kProhibited) return "prohibited";
    const bool shared = device.processes.size() > 1;
    if (mode == nvml::kExclusiveProcess && shared) return "exclusive, and ranks share it";
    return "";
  });
  if (!text.empty()) {
    return {{name, fmt::format("{}; nvidia-smi -c DEFAULT", text), State::warning}};
  }
  return {{name,
           grouped(devices,
                   [](const SeenDevice& device) {
                     const bool one = *device.facts->compute_mode == nvml::kExclusiveProcess;
                     return std::string(one ? "exclusive" : "default");
                   }),
           State::ok}};
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/machine_findings.h"

#include <algorithm>
#include <set>

#include "harness/cuda/device_list.h"

namespace commfuse {
namespace {

using State = SelfTestPart::State;

constexpr double kGibibyte = 1024.0 * 1024 * 1024;

std::string on_off(const std::optional<bool>& value) {
  return !value ? "unknown" : *value ? "on" : "off";
}

std::string description(const SeenDevice& device) {
  const DeviceFacts& facts = *device.facts;
  return fmt::format("{}, {:.1f} GiB, ECC {}, persistence {}", facts.name,
                     static_cast<double>(facts.memory_bytes) / kGibibyte, on_off(facts.ecc),
                     on_off(facts.persistence));
}

}  // namespace

Finding devices_finding(std::span<const RankFacts> ranks) {
  const std::vector<SeenDevice> devices = seen_devices(ranks);
  std::string text = grouped(devices, description);
  const auto used = std::ranges::count_if(devices, &SeenDevice::used);
  text += fmt::format("; {} of them used by {} ranks", used, ranks.size());
  const bool off = std::ranges::any_of(devices, [](const SeenDevice& device) {
    return device.facts->persistence.has_value() && !*device.facts->persistence;
  });
  if (off) text += "; nvidia-smi -pm 1 keeps the driver and its settings loaded between runs";
  return {{"devices", text, off ? State::warning : State::ok}};
}

Finding peer_access_finding(std::span<const RankFacts> ranks) {
  const char* const name = "peer access";
  std::set<std::string> apart;
  std::size_t most = 0;
  for (const RankFacts& rank : ranks) {
    most = std::max(most, rank.devices.size());
    for (const auto& [from, to] : rank.apart) {
      apart.insert(fmt::format("{} to {} on {}", from, to, rank.host));
    }
  }
  if (most < 2) return {{name, "no rank sees two devices", State::missing}};
  if (apart.empty()) return {{name, "every device reaches every other one", State::ok}};
  return {{name,
           fmt::format("none from {}: no transport ce between them, and NCCL goes through the "
                       "host; nvidia-smi topo -p2p r says why (IOMMU, ACS, different roots)",
                       fmt::join(apart, ", ")),
           State::warning}};
}

Finding links_finding(std::span<const RankFacts> ranks) {
  const char* const name = "nvlink";
  const std::vector<SeenDevice> devices = seen_devices(ranks);
  std::set<std::pair<int, int>> counts;
  for (const SeenDevice& device : devices) {
    if (!device.facts->links_active || !device.facts->links_inactive) {
      return {{name, unknown(devices), State::missing}};
    }
    counts.emplace(*device.facts->links_active, *device.facts->links_inactive);
  }
  const std::string text = grouped(devices, [](const SeenDevice& device) {
    return fmt::format("{} links up, {} down", *device.facts->links_active,
                       *device.facts->links_inactive);
  });
  const std::string unregistered = listed(devices, [](const SeenDevice& device) {
    const int state = device.facts->fabric_state.value_or(nvml::kNoFabric);
    return state == nvml::kNotStarted || state == nvml::kInProgress ? "not in the fabric"
                                                                    : std::string();
  });
  if (!unregistered.empty()) {
    return {{name, fmt::format("{}; {}: is nvidia-fabricmanager running?", text, unregistered),
             State::warning},
            "NVLink is not ready"};
  }
  // A device that has fewer than its neighbours has lost some; links that all lack are not wired.
  if (counts.size() > 1) {
    return {{name, fmt::format("{}; nvidia-smi nvlink --status", text), State::warning},
            "NVLinks are down"};
  }
  return {{name, text, State::ok}};
}

Finding multicast_finding(std::span<const RankFacts> ranks) {
  const char* const name = "multicast (NVLS)";
  const std::vector<SeenDevice> devices = seen_devices(ranks);
  for (const SeenDevice& device : devices) {
    if (!device.facts->multicast) {
      return {{name, "unknown: this driver does not tell", State::missing}};
    }
  }
  return {{name,
           grouped(devices,
                   [](const SeenDevice& device) {
                     return std::string(*device.facts->multicast ? "supported" : "not supported");
                   }),
           State::ok}};
}

std::vector<Finding> machine_findings(std::span<const RankFacts> ranks) {
  return {devices_finding(ranks), visibility_finding(ranks), peer_access_finding(ranks),
          links_finding(ranks),   multicast_finding(ranks),  affinity_finding(ranks),
          nccl_finding(ranks),    profiling_finding(ranks),  clocks_finding(ranks),
          limits_finding(ranks),  processes_finding(ranks),  compute_mode_finding(ranks)};
}

SelfTestPart trust_part(std::span<const Finding> findings) {
  std::vector<std::string> doubts;
  std::vector<std::string> others;
  for (const Finding& finding : findings) {
    if (!finding.against_times.empty()) {
      doubts.push_back(finding.against_times);
    } else if (finding.part.state == State::warning) {
      others.push_back(finding.part.name);
    }
  }
  std::string text = doubts.empty()
                         ? "checked results, and times: nothing was found that disturbs them"
                         : fmt::format(
                               "checked results; not times, nor what is derived from them: "
                               "{}",
                               fmt::join(doubts, ", "));
  if (!others.empty()) text += fmt::format("; to be mended: {}", fmt::join(others, ", "));
  const bool fine = doubts.empty() && others.empty();
  return {"can be trusted", text, fine ? State::ok : State::warning};
}

std::vector<std::string> lines_against_times(std::span<const Finding> findings) {
  std::vector<std::pair<std::string, std::string>> by_text;  // text, names
  for (const Finding& finding : findings) {
    if (finding.against_times.empty()) continue;
    const auto same =
        std::ranges::find(by_text, finding.part.text, &std::pair<std::string, std::string>::first);
    if (same == by_text.end()) {
      by_text.emplace_back(finding.part.text, finding.part.name);
    } else {
      same->second += ", " + finding.part.name;
    }
  }
  std::vector<std::string> lines;
  for (const auto& [text, names] : by_text) lines.push_back(fmt::format("{}: {}", names, text));
  return lines;
}

}  // namespace commfuse

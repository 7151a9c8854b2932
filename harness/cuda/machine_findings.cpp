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

/// "0000:01:00.0, 0000:02:00.0"
std::string addresses(const RankFacts& rank) {
  std::vector<std::string> all;
  for (const DeviceFacts& device : rank.devices) all.push_back(device.pci);
  return fmt::format("{}", fmt::join(all, ", "));
}

const DeviceFacts* device_of(const RankFacts& rank) {
  const auto own = std::ranges::find(rank.devices, rank.device, &DeviceFacts::pci);
  return own == rank.devices.end() ? nullptr : &*own;
}

/// What is wrong with where a rank may run; empty if nothing is.
std::string placement_complaint(const RankFacts& rank, std::size_t number) {
  if (rank.processors.size() == 1) {
    return fmt::format(
        "rank {} may run on one processor only, which threads of CUDA and NCCL share (mpirun "
        "--bind-to none, srun --cpu-bind=none)",
        number);
  }
  if (rank.near_processors.empty() || rank.processors.empty()) return "";
  const auto near = [&](int processor) {
    return std::ranges::count(rank.near_processors, processor) > 0;
  };
  if (std::ranges::any_of(rank.processors, near)) return "";
  return fmt::format(
      "rank {} may run on no processor of memory node {}, where its device is (bind it there, or "
      "--bind-to none)",
      number, device_of(rank) != nullptr ? device_of(rank)->memory_node : -1);
}

/// How many ranks have a network card on their device's memory node; nothing where none has cards
/// or nodes are not known.
std::string network_text(std::span<const RankFacts> ranks) {
  std::size_t with_cards = 0;
  std::size_t near = 0;
  for (const RankFacts& rank : ranks) {
    const DeviceFacts* const device = device_of(rank);
    if (device == nullptr || device->memory_node < 0 || rank.network_cards.empty()) continue;
    ++with_cards;
    const auto here = [&](const auto& card) { return card.second == device->memory_node; };
    if (std::ranges::any_of(rank.network_cards, here)) ++near;
  }
  if (with_cards == 0) return "; no InfiniBand or RoCE card whose node is known";
  return fmt::format("; {} of {} ranks have a network card on their device's node", near,
                     with_cards);
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

Finding visibility_finding(std::span<const RankFacts> ranks) {
  const char* const name = "visibility";
  for (std::size_t a = 0; a < ranks.size(); ++a) {
    for (std::size_t b = a + 1; b < ranks.size(); ++b) {
      if (ranks[a].host != ranks[b].host || addresses(ranks[a]) == addresses(ranks[b])) continue;
      return {
          {name,
           fmt::format("rank {} sees {} and rank {} sees {} of {}: memory of a device that is out "
                       "of sight cannot be opened, so transport ce fails and NCCL goes around; "
                       "srun --gpu-bind=none, and CUDA_VISIBLE_DEVICES the same for all ranks",
                       a, addresses(ranks[a]), b, addresses(ranks[b]), ranks[a].host),
           State::warning}};
    }
  }
  return {{name, "ranks of a node see the same devices", State::ok}};
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

Finding affinity_finding(std::span<const RankFacts> ranks) {
  const char* const name = "affinity";
  std::vector<std::string> complaints;
  std::size_t known = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!ranks[i].near_processors.empty()) ++known;
    const std::string complaint = placement_complaint(ranks[i], i);
    if (!complaint.empty()) complaints.push_back(complaint);
  }
  if (!complaints.empty()) {
    return {{name, fmt::format("{}", fmt::join(complaints, "; ")), State::warning}};
  }
  if (known == 0) {
    return {{name, "unknown: the memory nodes of devices are not known here", State::missing}};
  }
  return {{name,
           fmt::format("{} of {} ranks may run beside their device{}", known, ranks.size(),
                       network_text(ranks)),
           State::ok}};
}

Finding nccl_finding(std::span<const RankFacts> ranks) {
  std::set<std::string> versions;
  for (const RankFacts& rank : ranks) versions.insert(rank.nccl);
  const bool same = versions.size() == 1;
  return {{"nccl version",
           same ? fmt::format("{} on every rank", *versions.begin())
                : fmt::format("ranks have {}: load one library everywhere (LD_LIBRARY_PATH)",
                              fmt::join(versions, ", ")),
           same ? State::ok : State::warning}};
}

Finding profiling_finding(std::span<const RankFacts> ranks) {
  const char* const name = "cupti";
  std::vector<std::size_t> without;
  bool restricted = false;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!ranks[i].profiled) return {{name, "not asked for (--profiler none)", State::missing}};
    if (!ranks[i].traces) without.push_back(i);
    restricted = restricted ||
                 (ranks[i].profiling_for_administrators.value_or(false) && !ranks[i].administrator);
  }
  std::string rights = "; what the driver grants is not known";
  if (restricted) {
    rights =
        "; the driver grants profiling to administrators only: "
        "NVreg_RestrictProfilingToAdminUsers=0"
        " for the nvidia module, or run as root";
  } else if (std::ranges::all_of(ranks, [](const RankFacts& rank) {
               return rank.administrator || rank.profiling_for_administrators.has_value();
             })) {
    rights = "; the driver lets this user profile";
  }
  if (without.empty()) return {{name, "records on every rank" + rights, State::ok}};
  return {{name,
           fmt::format("does not record on ranks {}, standard error says why{}",
                       fmt::join(without, ", "), rights),
           State::warning}};
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

// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/machine_facts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/world/wire.h"

// An absent value is null among ranks.
template <class Value>
struct nlohmann::adl_serializer<std::optional<Value>> {
  static void to_json(json& object, const std::optional<Value>& value) {
    object = value ? json(*value) : json(nullptr);
  }
  static void from_json(const json& object, std::optional<Value>& value) {
    value = object.is_null() ? std::nullopt : std::optional(object.get<Value>());
  }
};

namespace commfuse {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceFacts, pci, name, memory_bytes, memory_node, multicast,
                                   not_shown, ecc, persistence, compute_mode, links_active,
                                   links_inactive, fabric_state, clock_mhz, application_clock_mhz,
                                   default_application_clock_mhz, max_clock_mhz, limits, processes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankFacts, host, process, device, devices, apart, processors,
                                   near_processors, network_cards, nccl, profiled, traces,
                                   administrator, profiling_for_administrators)

void add_state(const DeviceState& state, DeviceFacts& facts) {
  facts.ecc = state.ecc();
  facts.persistence = state.persistence();
  if (const auto mode = state.compute_mode()) facts.compute_mode = *mode;
  if (const auto links = state.links()) {
    facts.links_active = links->active;
    facts.links_inactive = links->inactive;
  }
  if (const auto fabric = state.fabric()) facts.fabric_state = fabric->state;
  facts.clock_mhz = state.sm_clock_mhz();
  facts.application_clock_mhz = state.application_clock_mhz();
  facts.default_application_clock_mhz = state.default_application_clock_mhz();
  facts.max_clock_mhz = state.max_clock_mhz();
  facts.limits = state.limits();
  facts.processes = state.processes();
}

std::vector<RankFacts> gather_facts(World& world, const RankFacts& own) {
  std::vector<RankFacts> all;
  // Names of devices come from a driver: what is no text of UTF-8 is replaced.
  const std::string text =
      nlohmann::json(own).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (const auto& bytes : world.gather(bytes_of(text), 0)) {
    all.push_back(nlohmann::json::parse(text_of(bytes)).get<RankFacts>());
  }
  return all;
}

std::vector<SeenDevice> seen_devices(std::span<const RankFacts> ranks) {
  std::vector<SeenDevice> all;
  const auto find = [&](const std::string& host, const std::string& pci) {
    return std::ranges::find_if(all, [&](const SeenDevice& device) {
      return device.host == host && device.facts->pci == pci;
    });
  };
  for (const RankFacts& rank : ranks) {
    for (const DeviceFacts& device : rank.devices) {
      if (find(rank.host, device.pci) == all.end()) all.push_back({rank.host, &device, {}});
    }
  }
  for (const RankFacts& rank : ranks) {
    const auto device = find(rank.host, rank.device);
    if (device == all.end() || std::ranges::count(device->processes, rank.process) > 0) continue;
    device->processes.push_back(rank.process);
  }
  return all;
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/machine_survey.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <stdexcept>

#include "harness/cuda/cuda_error.h"
#include "harness/cuda/driver_functions.h"
#include "harness/cuda/node_affinity.h"

namespace commfuse {
namespace {

DeviceFacts facts_of_device(int device, const MachineSources& sources) {
  DeviceFacts facts;
  cudaDeviceProp properties{};
  CFB_CUDA(cudaGetDeviceProperties(&properties, device));
  facts.pci = pci_of(device);
  facts.name = properties.name;
  facts.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  facts.memory_node = memory_node_of(sources.root, facts.pci);
  facts.multicast = has_multicast(device);
  if (const auto state = sources.state_of(facts.pci, &facts.not_shown)) add_state(*state, facts);
  return facts;
}

/// Pairs of devices without peer access, in either direction.
void find_pairs_apart(RankFacts& rank) {
  const int count = static_cast<int>(rank.devices.size());
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      if (from == to) continue;
      int can = 0;
      CFB_CUDA(cudaDeviceCanAccessPeer(&can, from, to));
      if (can != 0) continue;
      rank.apart.emplace_back(rank.devices[static_cast<std::size_t>(from)].pci,
                              rank.devices[static_cast<std::size_t>(to)].pci);
    }
  }
}

}  // namespace

MachineSources MachineSources::of_this_machine() {
  MachineSources sources;
  try {
    sources.nvml = NvmlLibrary::open();
  } catch (const std::runtime_error& error) {
    sources.without_nvml = error.what();
  }
  return sources;
}

std::optional<DeviceState> MachineSources::state_of(const std::string& pci,
                                                    std::string* why) const {
  std::string reason = without_nvml;
  if (nvml) {
    try {
      return DeviceState(*nvml, pci);
    } catch (const std::runtime_error& error) {
      reason = error.what();
    }
  }
  if (why != nullptr) *why = reason;
  return {};
}

RankFacts facts_of_rank(const World& world, const Device& device, const MachineSources& sources) {
  RankFacts rank;
  rank.host = world.host();
  rank.process = getpid();
  rank.device = device.pci;
  int count = 0;
  CFB_CUDA(cudaGetDeviceCount(&count));
  for (int i = 0; i < count; ++i) rank.devices.push_back(facts_of_device(i, sources));
  find_pairs_apart(rank);
  rank.processors = allowed_processors();
  const int node = rank.devices[static_cast<std::size_t>(device.index)].memory_node;
  const auto nodes = processors_of_nodes(sources.root);
  if (const auto near = nodes.find(node); near != nodes.end()) rank.near_processors = near->second;
  for (const NetworkCard& card : network_cards(sources.root)) {
    rank.network_cards.emplace_back(card.name, card.node);
  }
  rank.administrator = geteuid() == 0;
  rank.profiling_for_administrators = profiling_for_administrators(sources.root);
  return rank;
}

}  // namespace commfuse

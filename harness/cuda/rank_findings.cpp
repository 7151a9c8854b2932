// SPDX-License-Identifier: Apache-2.0
// How ranks are placed on the machine: what they see, where they may run, which libraries they
// have.
#include <algorithm>
#include <set>

#include "harness/cuda/device_list.h"
#include "harness/cuda/machine_findings.h"

namespace commfuse {
namespace {

using State = SelfTestPart::State;

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

Finding visibility_finding(std::span<const RankFacts> ranks) {
  const char* const name = "visibility";
  for (std::size_t a = 0; a < ranks.size(); ++a) {
    for (std::size_t b = a + 1; b < ranks.size(); ++b) {
      if (ranks[a].host != ranks[b].host || addresses(ranks[a]) == addresses(ranks[b])) continue;
      return {
          {name,
           fmt::format("rank {} sees {} and rank {} sees {} of {}: memory of a device that is out "
                       "of sight may not be opened, which transport ce and NCCL's direct copies "
                       "need; where they fail, srun --gpu-bind=none, and CUDA_VISIBLE_DEVICES the "
                       "same for all ranks",
                       a, addresses(ranks[a]), b, addresses(ranks[b]), ranks[a].host),
           State::warning}};
    }
  }
  return {{name, "ranks of a node see the same devices", State::ok}};
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

}  // namespace commfuse

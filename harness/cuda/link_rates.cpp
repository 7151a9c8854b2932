// SPDX-License-Identifier: Apache-2.0
// Links: each pair of devices of a node alone, copy engines pushing in one direction into the
// memory of a peer, as transport ce does it.
#include <fmt/format.h>

#include <chrono>

#include "harness/cuda/cuda_resources.h"
#include "harness/cuda/device_pattern.h"
#include "harness/cuda/device_rates.h"
#include "harness/cuda/peer_memory.h"
#include "harness/cuda/peer_reach.h"
#include "harness/cuda/rates.h"
#include "harness/cuda/timed_copy.h"
#include "harness/world/wire.h"

namespace commfuse {
namespace {

using State = SelfTestPart::State;

constexpr const char* kName = "links between devices";

/// The devices of one node, one rank each.
class NodeLinks {
 public:
  /// `ranks` are those of the world, by rank of the group.
  NodeLinks(World& group, std::span<const std::int32_t> ranks, std::size_t bytes,
            const RateLimits& limits)
      : group_(group), ranks_(ranks), limits_(limits), bytes_(bytes), stream_(0), source_(bytes) {
    landing_.allocate(group, bytes, reach_of(group));
    write_pattern(source_.data(), bytes_, seed(group.rank()), stream_);
  }

  /// Collective: adds to `rates` on the sender.
  void measure(std::vector<LinkRate>& rates) {
    const auto start = std::chrono::steady_clock::now();
    for (std::int32_t from = 0; from < group_.ranks(); ++from) {
      for (std::int32_t to = 0; to < group_.ranks(); ++to) {
        if (from == to) continue;
        const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
        const bool over = group_.rank() == 0 && spent.count() > limits_.link_seconds;
        if (group_.max(over ? 1 : 0) > 0) return;
        measure_pair(from, to, rates);
      }
    }
  }
  [[nodiscard]] const std::string& wrong() const { return wrong_; }

 private:
  static std::uint32_t seed(std::int32_t rank) { return static_cast<std::uint32_t>(rank) + 1; }

  [[nodiscard]] std::int32_t world_rank(std::int32_t rank) const {
    return ranks_[static_cast<std::size_t>(rank)];
  }

  void measure_pair(std::int32_t from, std::int32_t to, std::vector<LinkRate>& rates) {
    if (group_.rank() == to) {  // so that what is there is not of the pair before
      CFB_CUDA(cudaMemsetAsync(landing_.data(), 0xff, bytes_, stream_));
      CFB_CUDA(cudaStreamSynchronize(stream_));
    }
    group_.barrier();
    if (group_.rank() == from) {
      const std::int64_t ns =
          median_copy_ns(landing_.base(to), source_.data(), bytes_, limits_.repetitions, stream_);
      rates.push_back(
          {world_rank(from), world_rank(to), gb_per_second(static_cast<std::int64_t>(bytes_), ns)});
    }
    group_.barrier();
    if (group_.rank() != to || !wrong_.empty()) return;
    wrong_ = first_wrong_word(landing_.data(), bytes_, seed(from), stream_);
    if (wrong_.empty()) return;
    wrong_ = fmt::format("of what rank {} wrote to rank {} {}", world_rank(from), world_rank(to),
                         wrong_);
  }

  World& group_;
  std::span<const std::int32_t> ranks_;
  const RateLimits& limits_;
  std::size_t bytes_;
  Stream stream_;
  DeviceMemory source_;
  PeerMemory landing_;  // first to go: nobody writes to it then
  std::string wrong_;
};

/// What came of it on this rank, in ranks of the world.
struct Links {
  std::vector<LinkRate> rates;
  std::string missing;
  std::string wrong;
};

Links links_of_node(World& group, std::span<const std::int32_t> world_ranks, std::size_t bytes,
                    const RateLimits& limits) {
  Links links;
  links.missing = why_out_of_reach(group);
  if (!links.missing.empty()) return links;
  try {
    NodeLinks node(group, world_ranks, bytes, limits);
    node.measure(links.rates);
    links.wrong = node.wrong();
  } catch (const Unsupported& error) {  // on every rank of the group
    links.missing = error.what();
  }
  return links;
}

/// The ranks that speak for the devices of this rank's node.
std::vector<std::int32_t> speakers_beside(const DevicePlaces& places, std::int32_t rank) {
  std::vector<std::int32_t> ranks;
  for (std::int32_t r = 0; r < static_cast<std::int32_t>(places.devices.size()); ++r) {
    if (places.speaks(r) && places.lowest_of_node(r) == places.lowest_of_node(rank)) {
      ranks.push_back(r);
    }
  }
  return ranks;
}

std::size_t pairs(const DevicePlaces& places) {
  std::size_t count = 0;
  for (std::int32_t r = 0; r < static_cast<std::int32_t>(places.devices.size()); ++r) {
    if (places.speaks(r)) count += static_cast<std::size_t>(places.devices_of_node(r)) - 1;
  }
  return count;
}

}  // namespace

SelfTestPart measure_link_rates(World& world, const DevicePlaces& places,
                                const RateLimits& limits) {
  if (!places.several_on_a_node()) {
    return {kName,
            places.shared() ? "all ranks of a node share one device"
                            : "no node of this launch has two devices with a rank each",
            State::missing};
  }
  const bool speaks = places.speaks(world.rank());
  const auto bytes = static_cast<std::size_t>(
      -world.max(-static_cast<double>(affordable_bytes(limits.link_bytes, 2))));
  if (bytes == 0) return {kName, "too little memory is free on a device", State::missing};
  const std::unique_ptr<World> group =
      world.split(speaks ? places.lowest_of_node(world.rank()) : -1);
  Links links;
  if (group != nullptr && group->ranks() > 1) {
    const std::vector<std::int32_t> ranks = speakers_beside(places, world.rank());
    links = links_of_node(*group, ranks, bytes, limits);
  }
  const std::string missing = first_text(world, links.missing);
  const std::string wrong = first_text(world, links.wrong);
  std::vector<LinkRate> rates;
  for (const auto& part : world.gather(std::as_bytes(std::span(links.rates)), 0)) {
    for (const LinkRate& rate : values_of<LinkRate>(part)) rates.push_back(rate);
  }
  if (world.rank() != 0) return {};
  if (!wrong.empty()) return {kName, wrong, State::failed};
  if (rates.empty()) {
    return {
        kName,
        missing.empty() ? fmt::format("no pair was done in {:g} s", limits.link_seconds) : missing,
        State::missing};
  }
  return {kName, fmt::format("{}; {} of {} pairs one after the other, one direction, {} by copy "
                             "engine, median of {} each",
                             link_rates_text(rates, places.names), rates.size(), pairs(places),
                             mib_text(static_cast<std::int64_t>(bytes)), limits.repetitions)};
}

}  // namespace commfuse

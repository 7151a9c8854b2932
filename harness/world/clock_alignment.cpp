// SPDX-License-Identifier: Apache-2.0
#include "harness/world/clock_alignment.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "harness/world/wire.h"

namespace commfuse {
namespace {

constexpr int kRoundTrips = 100;

/// The first rank of each node, in the order of ranks; on every rank.
std::vector<std::int32_t> first_ranks(World& world, std::int32_t& own) {
  std::vector<std::int32_t> node_of;  // by rank: the first rank with its host's name
  const auto hosts = world.gather(bytes_of(world.host()), 0);
  for (const auto& host : hosts) {
    const auto same = std::ranges::find_if(
        hosts, [&](const auto& other) { return std::ranges::equal(other, host); });
    node_of.push_back(static_cast<std::int32_t>(same - hosts.begin()));
  }
  node_of = broadcast_values<std::int32_t>(world, node_of, 0);
  own = node_of[static_cast<std::size_t>(world.rank())];
  std::ranges::sort(node_of);
  node_of.erase(std::ranges::unique(node_of).begin(), node_of.end());
  return node_of;
}

/// Collective over the two of them, of which rank 0 is the root: what rank 1 reads, on both.
ClockReading compare_pair(World& pair, const std::function<std::int64_t()>& now) {
  ClockReading best{.uncertainty_ns = std::numeric_limits<std::int64_t>::max()};
  for (int i = 0; i < kRoundTrips; ++i) {
    const std::int64_t sent_ns = now();
    pair.broadcast({}, 0);
    const std::int64_t here_ns = now();
    const std::int64_t there_ns = broadcast_values<std::int64_t>(pair, {&here_ns, 1}, 1).front();
    const std::int64_t half_ns = (now() - sent_ns + 1) / 2;
    if (half_ns >= best.uncertainty_ns) continue;
    best = {there_ns, sent_ns + half_ns - there_ns, half_ns};
  }
  return broadcast_values<ClockReading>(pair, {&best, 1}, 0).front();
}

}  // namespace

ClockReading compare_clocks(World& world, const std::function<std::int64_t()>& now) {
  if (world.one_node()) return {.local_ns = now()};
  std::int32_t own_node = 0;
  const std::vector<std::int32_t> nodes = first_ranks(world, own_node);
  ClockReading own{.local_ns = now()};
  for (const std::int32_t node : nodes) {
    if (node == 0) continue;
    const bool compares = world.rank() == 0 || world.rank() == node;
    const std::unique_ptr<World> pair = world.split(compares ? 0 : -1);
    ClockReading reading;
    if (pair) reading = compare_pair(*pair, now);
    reading = broadcast_values<ClockReading>(world, {&reading, 1}, node).front();
    if (node == own_node) own = reading;
  }
  return own;
}

std::int64_t ClockAlignment::on_root(std::int64_t local_ns) const {
  const double share = after.local_ns == before.local_ns
                           ? 0
                           : static_cast<double>(local_ns - before.local_ns) /
                                 static_cast<double>(after.local_ns - before.local_ns);
  const auto drifted = static_cast<double>(after.offset_ns - before.offset_ns) * share;
  return local_ns + before.offset_ns + static_cast<std::int64_t>(drifted);
}

std::int64_t ClockAlignment::uncertainty_ns() const {
  return std::max(before.uncertainty_ns, after.uncertainty_ns);
}

double ClockAlignment::drift_ppm() const {
  if (after.local_ns == before.local_ns) return 0;
  return 1e6 * static_cast<double>(after.offset_ns - before.offset_ns) /
         static_cast<double>(after.local_ns - before.local_ns);
}

}  // namespace commfuse

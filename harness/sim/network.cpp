// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/network.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

namespace commfuse {

namespace {

[[noreturn]] void fail_too_long() {
  throw std::length_error("takes longer than simulated time can count: 53 days");
}

}  // namespace

Picoseconds picoseconds(double seconds) {
  const double time = seconds * 1e12;
  if (!(time < static_cast<double>(kEndOfTime / 4))) fail_too_long();
  return std::llround(time);
}

void require_in_time(Picoseconds time) {
  if (time > kEndOfTime) fail_too_long();
}

Picoseconds busy_time(const LinkSpeed& link, double bytes) {
  if (link.bytes_per_second <= 0) return 0;
  return picoseconds(bytes / link.bytes_per_second);
}

std::string_view name_of(CollectiveAlgorithm algorithm) {
  return algorithm == CollectiveAlgorithm::ring ? "ring" : "pairwise";
}

std::int32_t Network::node_of(std::int32_t place) const {
  return ranks_per_node > 0 ? place / ranks_per_node : 0;
}

std::int32_t Network::nic_of(std::int32_t place) const {
  const std::int32_t seat = ranks_per_node > 0 ? place % ranks_per_node : 0;
  return node_of(place) * nics_per_node +
         (ranks_per_node > 0 ? seat * nics_per_node / ranks_per_node : 0);
}

bool Network::same_node(std::int32_t a, std::int32_t b) const { return node_of(a) == node_of(b); }

const LinkSpeed& Network::link(std::int32_t from, std::int32_t to) const {
  return same_node(from, to) ? inner : outer;
}

std::size_t Network::egress(std::int32_t from, std::int32_t to, std::int32_t places) const {
  return static_cast<std::size_t>(same_node(from, to) ? from : places + nic_of(from));
}

std::size_t Network::ingress(std::int32_t from, std::int32_t to, std::int32_t places) const {
  return static_cast<std::size_t>(same_node(from, to) ? to : places + nic_of(to));
}

std::size_t Network::ports(std::int32_t places) const {
  const std::int32_t nodes = places > 0 ? node_of(places - 1) + 1 : 0;
  return static_cast<std::size_t>(places + nodes * nics_per_node);
}

double Network::step_latency(CollectiveKind kind, const LinkSpeed& link) const {
  return step_latency_seconds[static_cast<std::size_t>(kind)].value_or(link.latency_seconds);
}

double Network::step_seconds(CollectiveKind kind, double block, std::size_t distance,
                             std::span<const std::int32_t> places) const {
  const auto seconds = [&](const LinkSpeed& link, double bytes) {
    return step_latency(kind, link) +
           (link.bytes_per_second > 0 ? bytes / link.bytes_per_second : 0.0);
  };
  double slowest = 0;
  std::map<std::int32_t, std::int32_t> leaving, arriving;  // messages through each NIC
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::int32_t from = places[i];
    const std::int32_t to = places[(i + distance) % places.size()];
    if (same_node(from, to)) {
      slowest = std::max(slowest, seconds(inner, block));
    } else {
      const std::int32_t sharing = std::max(++leaving[nic_of(from)], ++arriving[nic_of(to)]);
      slowest = std::max(slowest, seconds(outer, block * sharing));
    }
  }
  return slowest;
}

Picoseconds Network::collective_time(CollectiveKind kind, std::int64_t bytes,
                                     std::span<const std::int32_t> places) const {
  const std::size_t others = places.size() - 1;
  if (others == 0) return 0;
  const double times = kind == CollectiveKind::all_reduce ? 2 : 1;
  const double block = static_cast<double>(bytes) / (times * static_cast<double>(others));
  const bool one_node = std::ranges::all_of(
      places, [&](std::int32_t place) { return same_node(place, places.front()); });
  const bool ring = algorithm == CollectiveAlgorithm::ring && kind != CollectiveKind::all_to_all;
  double seconds = 0;
  if (ring || one_node) {  // all steps are alike
    seconds = static_cast<double>(others) * step_seconds(kind, block, 1, places);
  } else {
    for (std::size_t s = 1; s <= others; ++s) seconds += step_seconds(kind, block, s, places);
  }
  return picoseconds(times * seconds);
}

}  // namespace commfuse

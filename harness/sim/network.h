// SPDX-License-Identifier: Apache-2.0
// Where ranks sit and what lies between them: nodes of equal size, a link between the ranks of a
// node and one between nodes. Pure arithmetic in picoseconds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "harness/executor.h"
#include "impls/plan.h"

namespace commfuse {

/// Simulated time; 2^63 of them are 106 days.
using Picoseconds = std::int64_t;
/// Nothing ends later; beyond it numbers would run over.
constexpr Picoseconds kEndOfTime = Picoseconds{1} << 62;

/// Of one op or transfer, at most a quarter of all time. Throws std::length_error.
Picoseconds picoseconds(double seconds);
/// Throws std::length_error for a time after the end.
void require_in_time(Picoseconds time);
/// Rounded to the nearest.
constexpr std::int64_t nanoseconds(Picoseconds time) { return (time + 500) / 1000; }

/// How long bytes keep a link busy; 0 where it is unlimited.
Picoseconds busy_time(const LinkSpeed& link, double bytes);

/// In which steps a collective moves its blocks. All-to-alls are pairwise in any case: a block that
/// belongs to one rank is not passed on by others.
enum class CollectiveAlgorithm : std::uint8_t {
  ring,      // every step, each rank sends a block to the next one
  pairwise,  // in step s, rank r sends a block to rank r + s
};
std::string_view name_of(CollectiveAlgorithm algorithm);

/// A place is a seat for one rank: places [n * ranks_per_node, (n + 1) * ranks_per_node) are node
/// n.
struct Network {
  LinkSpeed inner;                  // of each rank, in each direction, within its node
  LinkSpeed outer;                  // of each NIC, in each direction
  std::int32_t ranks_per_node = 0;  // 0: all ranks are on one node
  std::int32_t nics_per_node = 1;   // shared evenly by the ranks of the node
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring;
  /// Of a step of a collective of each kind, where it was fitted to measured ones
  /// (collective_fit.h); without it, that of the link.
  std::array<std::optional<double>, kCollectiveKinds.size()> step_latency_seconds;

  [[nodiscard]] bool same_node(std::int32_t a, std::int32_t b) const;
  [[nodiscard]] const LinkSpeed& link(std::int32_t from, std::int32_t to) const;
  /// The port through which a message from one place to another leaves, and the one through which
  /// it arrives. A port carries one message at a time in each direction. Ports [0, places) are
  /// those of the ranks, the others those of the NICs.
  [[nodiscard]] std::size_t egress(std::int32_t from, std::int32_t to, std::int32_t places) const;
  [[nodiscard]] std::size_t ingress(std::int32_t from, std::int32_t to, std::int32_t places) const;
  [[nodiscard]] std::size_t ports(std::int32_t places) const;

  /// Of one step of a collective on a link that the network has.
  [[nodiscard]] double step_latency(CollectiveKind kind, const LinkSpeed& link) const;
  /// Of a collective among ranks at these places, each of which sends `bytes` in all: the sum over
  /// its steps (one to every other rank, twice that in an all_reduce) of latency and block / rate,
  /// on the slowest way of the step. Where several ranks of the collective leave a node in a step,
  /// they share its NICs.
  [[nodiscard]] Picoseconds collective_time(CollectiveKind kind, std::int64_t bytes,
                                            std::span<const std::int32_t> places) const;

 private:
  [[nodiscard]] std::int32_t node_of(std::int32_t place) const;
  [[nodiscard]] std::int32_t nic_of(std::int32_t place) const;  // among all NICs
  [[nodiscard]] double step_seconds(CollectiveKind kind, double block, std::size_t distance,
                                    std::span<const std::int32_t> places) const;
};

}  // namespace commfuse

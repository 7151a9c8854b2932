// SPDX-License-Identifier: Apache-2.0
// What the ranks of a ce channel know of each other's plan: where blocks go, and which counters
// belong to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "harness/program.h"
#include "harness/world/world.h"

namespace commfuse {

/// One message as its rank publishes it; its counter has the message's number.
struct PublishedMessage {
  View view;
  std::int32_t peer = 0;
  std::uint32_t sequence = 0;
  Lane lane = Lane::compute;
  bool send = false;
};

/// The communication of one rank's plan. Its memory for peers holds a counter for each message,
/// then three for each collective and rank (arrival, credit and, of all-reduces, arrival of the
/// sum), then the blocks of others that are staged to be added.
struct RankLayout {
  std::int32_t ranks = 1;
  std::vector<PublishedMessage> messages;  // by MessageId
  std::vector<Collective> collectives;     // in plan order, the same kinds on every rank
  std::vector<std::size_t> staging;        // by collective: offset of its first staged block
  std::size_t bytes = 0;

  [[nodiscard]] std::size_t counter(MessageId message) const;
  /// Of all counters; they come first.
  [[nodiscard]] std::size_t counter_bytes() const;
  [[nodiscard]] std::size_t arrival(std::size_t collective, std::int32_t from) const;
  [[nodiscard]] std::size_t credit(std::size_t collective, std::int32_t from) const;
  [[nodiscard]] std::size_t sum_arrival(std::size_t collective, std::int32_t from) const;
  /// The other side of a message that `from` sent or receives. Throws std::logic_error if there is
  /// none, which verified plans never do.
  [[nodiscard]] MessageId match(const PublishedMessage& message, std::int32_t from) const;
};

/// Elements that lie between two staged blocks of a collective; 0 if it adds nothing.
std::int64_t staged_elements(const Collective& collective, std::int32_t ranks);

/// Collective: the layouts of all ranks, by rank.
std::vector<RankLayout> exchange_layouts(World& group, const Program& program);

/// Place of another rank among the P-1 others of `rank`.
constexpr std::int32_t place_among_others(std::int32_t other, std::int32_t rank) {
  return other < rank ? other : other - 1;
}

}  // namespace commfuse

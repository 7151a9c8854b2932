// SPDX-License-Identifier: Apache-2.0
// What the ranks of a paced channel tell each other, in shared memory: posted receives, arrivals,
// collectives, and when the ports are free. Data itself goes straight from tensor to tensor.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "harness/host/ports.h"
#include "harness/host/transport.h"
#include "harness/world/doorbell.h"
#include "harness/world/world.h"

namespace commfuse {

/// One receive, in its rank's block: where the sender finds what it must know, and leaves word.
struct alignas(64) Landing {
  std::int32_t source = 0;
  Lane lane = Lane::compute;
  bool feeds_transport = false;       // of the receiver: whether its wire must wake up
  bool feeds_next_transport = false;  // the same, if another iteration follows
  std::uint32_t sequence = 0;
  View view;
  std::atomic<Epoch> posted{0};  // by the receiver; posted_ns is valid once it is seen
  std::int64_t posted_ns = 0;
  Completion arrival;  // by the sender
};

/// One collective. The views are this rank's own; everything else is used in rank 0's block only,
/// and guarded by PacedControl::lock() but for the two epochs, which publish the times beside them.
struct alignas(64) Meeting {
  View send;
  View receive;
  std::int32_t arrived = 0;
  std::int32_t moved = 0;
  std::int64_t latest_ns = 0;  // arrival
  std::int64_t moved_ns = 0;   // when the slowest copy really ended
  std::atomic<Epoch> started{0};
  std::int64_t start_ns = 0;
  std::atomic<Epoch> ended{0};
  std::int64_t end_ns = 0;
};

class PacedControl {
 public:
  using MeetingCounts = std::array<std::uint32_t, kLanes>;

  /// Collective. Landings and meetings of this rank are empty and its own to fill in before
  /// publish().
  PacedControl(World& group, std::size_t landings, const MeetingCounts& meetings);
  /// Collective: every rank has filled in its block. Throws std::runtime_error if the ranks do not
  /// have the same collectives.
  void publish();

  [[nodiscard]] std::int32_t rank() const { return rank_; }
  [[nodiscard]] std::int32_t ranks() const { return ranks_; }
  /// Wakes the wire's thread of a rank, or the rank's own thread.
  [[nodiscard]] Doorbell& wire_bell(std::int32_t rank) const { return head(rank).wire_bell; }
  [[nodiscard]] Doorbell& compute_bell(std::int32_t rank) const { return head(rank).compute_bell; }
  [[nodiscard]] std::span<Landing> landings(std::int32_t rank) const;
  /// Ordered by lane, then as they come in it. The count is the same on every rank.
  [[nodiscard]] std::span<Meeting> meetings(std::int32_t rank) const;

  [[nodiscard]] SharedLock lock() const { return SharedLock(head(0).mutex); }
  /// Of the group; hold lock().
  [[nodiscard]] Ports ports() const;

 private:
  struct Head {
    alignas(64) Doorbell wire_bell;
    alignas(64) Doorbell compute_bell;
    alignas(64) pthread_mutex_t mutex;  // rank 0's only
    std::uint32_t landings;
    MeetingCounts meetings;
  };

  [[nodiscard]] Head& head(std::int32_t rank) const;
  [[nodiscard]] std::byte* after_head(std::int32_t rank) const;

  World& group_;
  std::int32_t rank_;
  std::int32_t ranks_;
  std::unique_ptr<SharedSegment> segment_;
};

}  // namespace commfuse

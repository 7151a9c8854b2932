// SPDX-License-Identifier: Apache-2.0
// The wire of one rank for one paced channel: posts this rank's receives, starts its sends, takes
// part in collectives. Runs on the rank's wire thread; shared state and its lifetime are
// PacedChannel's.
//
// Two cursors walk each lane. The receive cursor posts a receive as soon as the receive's own
// dependencies are done (the credit); the send cursor starts a send when its dependencies are done
// and its receive is posted. Among the sends that could start, the one that was ready first does.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "harness/host/lane_cursor.h"
#include "harness/host/paced_control.h"
#include "harness/host/wire_thread.h"

namespace commfuse {

class PacedWire final : public WireWork {
 public:
  PacedWire(const Program& program, std::span<const Storage> storages, PacedControl& control,
            WireReport& report);

  /// Before the wire thread is started on this.
  void begin(const Run& run, const LinkSpeed& link);
  void move_everything() noexcept override;
  /// Makes move_everything() return although not everything has moved. Any thread.
  void give_up();

  /// The newest completion of any event; compute events are published by the rank's thread.
  [[nodiscard]] Completion& completion(EventId event) const { return *completions_[event]; }
  /// The rank's thread has come to this collective of the compute lane.
  void call(EventId event, Epoch epoch, std::int64_t ready_ns);

 private:
  enum class Attendance : std::uint8_t { away, arrived, moved };
  struct LaneState {
    LaneCursor sends;
    LaneCursor receives;
    std::int64_t send_floor_ns = 0;  // nothing of the lane starts before
    std::int64_t receive_floor_ns = 0;
    Attendance attendance = Attendance::away;  // at the collective that the cursors stand at
  };
  struct Candidate {
    LaneState* lane = nullptr;
    std::int64_t ready_ns = 0;
  };

  void find_landings();
  void number_meetings();

  std::int64_t move_what_can_move();  // returns when to look again, at the latest
  [[nodiscard]] bool finished() const;
  /// When the event's dependencies were done; nullopt if some are not yet.
  [[nodiscard]] std::optional<std::int64_t> dependencies_done(EventId event, Epoch epoch) const;
  bool post_receives(LaneState& lane);
  [[nodiscard]] Candidate first_ready_send();
  void send(LaneState& lane, std::int64_t ready_ns);
  bool attend_collective(LaneState& lane);
  [[nodiscard]] std::optional<std::int64_t> collective_ready(const LaneState& lane) const;
  void arrive(Meeting& meeting, EventId event, Epoch epoch, std::int64_t ready_ns);
  void move_part(EventId event, Epoch epoch, Meeting& meeting);
  void copy_blocks(EventId event);
  void sum_blocks(EventId event);
  void leave(LaneState& lane, const Meeting& meeting);

  [[nodiscard]] bool due(std::int64_t ready_ns);  // notes the time if it is still to come
  void note_copy(std::int64_t begin_ns, std::int64_t end_ns, std::int64_t computed_end_ns);
  void ring_all_wires();
  [[nodiscard]] std::int64_t collective_ns(EventId event) const;
  [[nodiscard]] Meeting& meeting_of(EventId event, std::int32_t rank) const;
  /// Where what a rank sends or receives in a collective lies.
  [[nodiscard]] std::byte* sent_by(EventId event, std::int32_t rank) const;
  [[nodiscard]] std::byte* received_by(EventId event, std::int32_t rank) const;

  const Program& program_;
  std::span<const Storage> storages_;
  PacedControl& control_;
  WireReport& report_;
  std::int32_t rank_;

  std::unique_ptr<Completion[]> own_completions_;
  std::vector<Completion*> completions_;  // by event: own, or in the landing of a receive
  std::unique_ptr<Completion[]> calls_;   // by event, for collectives of the compute lane
  std::vector<Landing*> landings_;        // by message: a send's at its peer, a receive's own
  std::vector<std::uint32_t> meetings_;   // by event
  std::vector<const std::byte*> terms_;   // of a sum
  std::vector<bool> to_wake_;             // by rank

  Run run_;
  LinkSpeed link_;
  std::vector<LaneState> lanes_;
  std::int64_t now_ns_ = 0;
  std::int64_t look_again_ns_ = 0;
  std::atomic<bool> gave_up_{false};
};

}  // namespace commfuse

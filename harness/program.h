// SPDX-License-Identifier: Apache-2.0
// A plan the way executors walk it: as events. An event is what can be waited for: a compute op, a
// collective, or one message of an exchange.
//
// Besides the plan's own dependencies (within an iteration) every event has dependencies on the
// iteration before, so that iterations may follow each other without a barrier. Event x of
// iteration i+1 waits for event y of iteration i where y comes no earlier than x in the plan, their
// views overlap and one of the two writes. (Where y comes earlier than x, y of iteration i+1 lies
// between the two.) Every message and collective also waits for its own previous self.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/record/timeline.h"
#include "impls/plan.h"

namespace commfuse {

/// Ops are events 0, 1, ...; message m is event ops + m. The number of an exchange is unused.
using EventId = std::uint32_t;

enum class EventKind : std::uint8_t { none, compute, collective, send, receive };

struct Event {
  EventKind kind = EventKind::none;
  Lane lane = Lane::compute;
  OpId op = 0;
  MessageId message = kWholeOp;
  std::uint32_t span = 0;  // its place in Program::spans()
  /// Whether an event of the transport (a message, or a collective off the compute lane) waits for
  /// this one, in the same iteration or in the next.
  bool feeds_transport = false;
  bool feeds_next_transport = false;
};

/// Throws std::invalid_argument unless the plan is that of `rank` of `ranks`, over so many tensors
/// of the workload.
void require_plan_of(const Plan& plan, std::int32_t rank, std::int32_t ranks, std::size_t tensors);

/// Why every transport but nccl refuses collectives that are asked for in this way; empty if none
/// does.
std::string refusal_of(CollectiveVia via);
/// Throws Unsupported, with that text, for a plan with such collectives.
void require_default_collectives(const Plan& plan);

class Program {
 public:
  explicit Program(const Plan& plan);

  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] std::span<const Event> events() const { return events_; }
  [[nodiscard]] const Event& event(EventId id) const { return events_[id]; }
  [[nodiscard]] const Message& message(EventId id) const {
    return plan_.messages[events_[id].message];
  }
  [[nodiscard]] const Collective& collective(EventId id) const {
    return std::get<Collective>(plan_.ops[events_[id].op].work);
  }
  /// nullopt unless the event is a compute op.
  [[nodiscard]] std::optional<Compute> compute(EventId id) const {
    return compute_of(plan_.ops[events_[id].op]);
  }

  /// Compute ops and collectives of the compute lane, in order: what the rank's thread walks.
  [[nodiscard]] std::span<const EventId> compute_lane() const { return compute_lane_; }
  /// Messages and collectives of a lane, in order: what the transport walks.
  [[nodiscard]] std::span<const EventId> transfers(Lane lane) const {
    return transfers_[static_cast<std::size_t>(lane)];
  }
  [[nodiscard]] bool communicates() const { return communicates_; }

  /// What the event waits for within its iteration. Of an event of the compute lane, only those
  /// that the order of that lane does not already imply.
  [[nodiscard]] std::span<const EventId> dependencies(EventId id) const;
  /// What it waits for in the iteration before.
  [[nodiscard]] std::span<const EventId> earlier_iteration(EventId id) const;

  /// One span per event, complete but for its times.
  [[nodiscard]] std::span<const Span> spans() const { return spans_; }

 private:
  struct Range {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };

  void add_events();
  void add_spans();
  void add_dependencies();
  void add_earlier_iteration();
  /// Per event, the events no earlier in the plan that conflict with it; of pairs that the compute
  /// lane orders, none.
  [[nodiscard]] std::vector<std::vector<EventId>> conflicts_with_later() const;
  void reduce_for_transfer(EventId id, std::vector<EventId>& ids) const;
  void mark_feeds();
  [[nodiscard]] std::vector<EventId> events_of(std::span<const Dependency> dependencies) const;
  [[nodiscard]] bool on_compute_lane(EventId id) const;
  [[nodiscard]] Range append(std::span<const EventId> ids);

  Plan plan_;
  bool communicates_ = false;
  std::vector<Event> events_;
  std::vector<EventId> compute_lane_;
  std::array<std::vector<EventId>, kLanes> transfers_;
  std::vector<Span> spans_;
  std::vector<EventId> edges_;
  std::vector<Range> dependencies_;       // per event, in edges_
  std::vector<Range> earlier_iteration_;  // per event, in edges_
};

}  // namespace commfuse

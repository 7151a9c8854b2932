// SPDX-License-Identifier: Apache-2.0
// Executes the plans of all ranks in simulated time. The same plans give the same times, to the
// picosecond.
//
// A compute op starts when its lane has come to it and its dependencies have ended, and takes the
// time that it was given. A message goes as the protocol says, through the egress port of its
// sender and the ingress port of its receiver at once; ports serve first come, first served. It
// keeps both busy for bytes / rate, and is complete on both sides a latency later. A collective
// starts when all of its ranks have come and what they had queued before has left, keeps all ports
// of its ranks busy, and ends on all ranks at once.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/sim/earliest_first.h"
#include "harness/sim/event_graph.h"
#include "harness/sim/network.h"
#include "harness/sim/port_queues.h"

namespace commfuse {

class EventEngine {
 public:
  /// Both outlive this. The graph is connected; run() fills the times of its nodes.
  EventEngine(EventGraph& graph, const Network& network);

  /// Once. Throws PlanError where something waits for ever, std::length_error beyond kEndOfTime.
  void run();
  /// Ops, messages and collectives that were executed, by every rank that takes part.
  [[nodiscard]] std::uint64_t events() const { return events_; }

 private:
  /// What happens next, among what competes for ports.
  struct Happening {
    enum class What : std::uint8_t { message_ready, port_free, meeting_ready, meeting_starts };
    Picoseconds time = 0;
    std::uint32_t order = 0;  // between happenings of one time: the node, or the first of a meeting
    What what = What::message_ready;
    std::uint32_t index = 0;  // a node, a port or a meeting
    bool operator>(const Happening& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };
  /// A collective that has to pass the queues of all its ports.
  struct Passage {
    std::vector<std::size_t> ports;
    Picoseconds duration = 0;
    std::size_t missing = 0;  // queues of which it is not the head
    Picoseconds latest = 0;   // of the times at which it became that
  };

  void prepare_meetings();
  void start_all();
  void arrive(NodeId id, Picoseconds time);
  void propagate();
  void ready(NodeId id);
  void begun(NodeId id, Picoseconds time);
  void ended(NodeId id, Picoseconds time);
  void fetch_ahead(NodeId id, NodeId distance) const;
  void fetch_partner_ahead(NodeId id) const;
  void come_to_meeting(NodeId id);
  void start_exchange(NodeId id);
  void happen(const Happening& next);
  void message_ready(NodeId id, Picoseconds now);
  void serve_head(std::size_t port);
  void transfer(NodeId id, Picoseconds now);
  void message_ended(NodeId id, Picoseconds begin, Picoseconds end);
  void join_all_queues(std::uint32_t meeting);
  void pass(std::uint32_t meeting, Picoseconds time);
  void collective(std::uint32_t meeting, Picoseconds now);
  void require_all_done() const;
  [[noreturn]] void fail_of_deadlock(NodeId id) const;

  [[nodiscard]] std::size_t egress(NodeId send) const;
  [[nodiscard]] std::size_t ingress(NodeId send) const;
  [[nodiscard]] std::int32_t place(NodeId id) const;

  EventGraph& graph_;
  const Network& network_;
  std::int32_t places_ = 0;
  PortQueues queues_;
  std::vector<Passage> passages_;  // by meeting
  EarliestFirst<Happening> next_;
  std::vector<NodeId> ready_;  // nothing missing, and not looked at yet
  std::uint64_t events_ = 0;
};

}  // namespace commfuse

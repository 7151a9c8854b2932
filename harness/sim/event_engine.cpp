// SPDX-License-Identifier: Apache-2.0
// Only what competes for ports needs the order of time: everything else starts when the last thing
// it waits for has happened, whatever happens elsewhere, and is computed as soon as that is known,
// even ahead of the clock. Nothing that is still unknown can come before the earliest happening in
// the queue, because it waits for one that is in it.
#include "harness/sim/event_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "impls/verify.h"

namespace commfuse {
namespace {

/// Items of a port's queue: messages by their node, collectives by their meeting.
constexpr QueueItem kMeeting = QueueItem{1} << 31;

/// How far ahead of a rank's events memory is fetched: a few cache lines.
constexpr NodeId kNodesAhead = 4;
constexpr NodeId kMessagesAhead = 16;     // of those that are posted together
constexpr std::size_t kEdgesPerNode = 2;  // about

std::int32_t places_of(const EventGraph& graph) {
  std::int32_t last = -1;
  for (const RankEvents& rank : graph.ranks()) last = std::max(last, rank.place);
  return last + 1;
}

}  // namespace

EventEngine::EventEngine(EventGraph& graph, const Network& network)
    : graph_(graph), network_(network), places_(places_of(graph)), queues_(network.ports(places_)) {
  prepare_meetings();
}

void EventEngine::prepare_meetings() {
  std::map<std::tuple<std::uint32_t, CollectiveKind, std::int64_t>, Picoseconds> durations;
  std::map<std::uint32_t, std::vector<std::size_t>> ports;  // by group
  for (const Meeting& meeting : graph_.meetings()) {
    const auto places = graph_.places(meeting.group);
    auto [time, new_time] = durations.try_emplace({meeting.group, meeting.kind, meeting.bytes}, 0);
    if (new_time) {
      time->second = network_.collective_time(meeting.kind, meeting.bytes, places);
    }
    auto [used, new_group] = ports.try_emplace(meeting.group);
    if (new_group) {
      for (const std::int32_t place : places) {
        used->second.push_back(network_.egress(place, place, places_));
        const auto away = std::ranges::find_if(
            places, [&](std::int32_t other) { return !network_.same_node(place, other); });
        if (away != places.end()) used->second.push_back(network_.egress(place, *away, places_));
      }
      std::ranges::sort(used->second);
      const auto repeated = std::ranges::unique(used->second);
      used->second.erase(repeated.begin(), repeated.end());
    }
    passages_.push_back({used->second, time->second, used->second.size(), 0});
  }
}

void EventEngine::run() {
  start_all();
  while (!next_.empty()) {
    const Happening next = next_.top();
    next_.pop();
    if (!next_.empty()) {  // what comes after it, while it is being worked on
      __builtin_prefetch(&graph_.nodes()[graph_.nodes()[next_.top().order].partner]);
    }
    happen(next);
    propagate();
  }
  require_all_done();
}

void EventEngine::start_all() {
  for (const RankEvents& rank : graph_.ranks()) {
    for (NodeId id = rank.first_op; id < rank.end; ++id) {
      if (graph_.nodes()[id].missing == 0) ready_.push_back(id);
    }
  }
  // In order of their ids; what they set free is looked at in between.
  std::ranges::reverse(ready_);
  propagate();
}

void EventEngine::arrive(NodeId id, Picoseconds time) {
  EventNode& node = graph_.nodes()[id];
  node.begin = std::max(node.begin, time);
  if (--node.missing == 0) ready_.push_back(id);
}

void EventEngine::propagate() {
  while (!ready_.empty()) {
    const NodeId id = ready_.back();
    ready_.pop_back();
    ready(id);
  }
}

void EventEngine::ready(NodeId id) {
  EventNode& node = graph_.nodes()[id];
  switch (node.kind) {
    case NodeKind::none:
      break;
    case NodeKind::compute:
      begun(id, node.begin);
      ended(id, node.begin + node.amount());
      break;
    case NodeKind::collective:
      come_to_meeting(id);
      break;
    case NodeKind::exchange:
      start_exchange(id);
      break;
    case NodeKind::send:
      __builtin_prefetch(&graph_.nodes()[node.partner]);  // long before its turn
      next_.push({node.begin, id, Happening::What::message_ready, id});
      break;
    case NodeKind::receive:
      fetch_partner_ahead(id);
      begun(id, node.begin);
      arrive(node.partner, node.begin);
      break;
  }
}

void EventEngine::begun(NodeId id, Picoseconds time) {
  graph_.nodes()[id].begin = time;
  for (const EventGraph::Edge& edge : graph_.edges(id)) {
    if (edge.at_begin) arrive(edge.to, time);
  }
}

void EventEngine::ended(NodeId id, Picoseconds time) {
  require_in_time(time);
  graph_.nodes()[id].end = time;
  fetch_ahead(id, kNodesAhead);
  ++events_;
  for (const EventGraph::Edge& edge : graph_.edges(id)) {
    if (!edge.at_begin) arrive(edge.to, time);
  }
}

/// Events of a rank follow each other in memory, but those of a thousand ranks come in between, too
/// many streams for a processor to see: it is told what this rank comes to next.
void EventEngine::fetch_ahead(NodeId id, NodeId distance) const {
  const auto nodes = graph_.nodes();
  const std::size_t ahead = std::min<std::size_t>(id + distance, nodes.size() - 1);
  __builtin_prefetch(&nodes[ahead]);
  const auto edges = graph_.edges();
  const std::size_t edge = nodes[id].first_edge + distance * kEdgesPerNode;
  if (edge < edges.size()) __builtin_prefetch(&edges[edge]);
}

/// Receives are often posted long before anything is sent, one after the other, and each of them
/// has its other side on another rank.
void EventEngine::fetch_partner_ahead(NodeId id) const {
  const auto nodes = graph_.nodes();
  const std::size_t ahead = std::min<std::size_t>(id + kMessagesAhead, nodes.size() - 1);
  __builtin_prefetch(&nodes[nodes[ahead].partner]);
}

void EventEngine::come_to_meeting(NodeId id) {
  const EventNode& node = graph_.nodes()[id];
  const auto number = static_cast<std::uint32_t>(node.amount());
  Meeting& meeting = graph_.meetings()[number];
  Passage& passage = passages_[number];
  passage.latest = std::max(passage.latest, node.begin);
  if (--meeting.missing > 0) return;
  next_.push({passage.latest, meeting.nodes.front(), Happening::What::meeting_ready, number});
}

/// Under rendezvous and joint a message waits for the exchanges of both sides.
void EventEngine::start_exchange(NodeId id) {
  const EventNode& node = graph_.nodes()[id];
  const WholeExchange& exchange = graph_.exchanges()[static_cast<std::size_t>(node.amount())];
  begun(id, node.begin);
  for (NodeId i = 0; i < exchange.messages; ++i) arrive(exchange.first_message + i, node.begin);
}

void EventEngine::happen(const Happening& next) {
  switch (next.what) {
    case Happening::What::message_ready:
      message_ready(next.index, next.time);
      break;
    case Happening::What::port_free:
      transfer(queues_.head(next.index), next.time);
      queues_.leave(next.index);
      serve_head(next.index);
      break;
    case Happening::What::meeting_ready:
      join_all_queues(next.index);
      break;
    case Happening::What::meeting_starts:
      collective(next.index, next.time);
      break;
  }
}

void EventEngine::message_ready(NodeId id, Picoseconds now) {
  begun(id, now);
  const std::size_t port = egress(id);
  if (queues_.idle(port, now)) {
    transfer(id, now);
  } else if (queues_.join(port, id)) {
    serve_head(port);
  }
}

/// The head of a queue has its turn when the port is free.
void EventEngine::serve_head(std::size_t port) {
  if (queues_.empty(port)) return;
  const QueueItem head = queues_.head(port);
  const Picoseconds free = queues_.egress_free(port);
  if ((head & kMeeting) != 0) {
    pass(head & ~kMeeting, free);
  } else {
    next_.push({free, head, Happening::What::port_free, static_cast<std::uint32_t>(port)});
  }
}

void EventEngine::transfer(NodeId id, Picoseconds now) {
  const EventNode& send = graph_.nodes()[id];
  const LinkSpeed& link = network_.link(place(id), place(send.partner));
  const Picoseconds begin = std::max(now, queues_.ingress_free(ingress(id)));
  const Picoseconds busy = begin + busy_time(link, static_cast<double>(send.amount()));
  queues_.take_egress(egress(id), busy);
  queues_.take_ingress(ingress(id), busy);
  message_ended(id, begin, busy + picoseconds(link.latency_seconds));
}

void EventEngine::message_ended(NodeId id, Picoseconds begin, Picoseconds end) {
  for (const NodeId side : {id, graph_.nodes()[id].partner}) {
    graph_.nodes()[side].begin = begin;
    ended(side, end);
    if (graph_.protocol() == Protocol::put) continue;
    WholeExchange& exchange = graph_.exchange_of(side);
    exchange.latest = std::max(exchange.latest, end);
    if (--exchange.missing == 0) ended(exchange.node, exchange.latest);
  }
}

void EventEngine::join_all_queues(std::uint32_t meeting) {
  for (const std::size_t port : passages_[meeting].ports) {
    if (queues_.join(port, meeting | kMeeting)) pass(meeting, queues_.egress_free(port));
  }
}

void EventEngine::pass(std::uint32_t meeting, Picoseconds time) {
  Passage& passage = passages_[meeting];
  passage.latest = std::max(passage.latest, time);
  if (--passage.missing > 0) return;
  next_.push({passage.latest, graph_.meetings()[meeting].nodes.front(),
              Happening::What::meeting_starts, meeting});
}

void EventEngine::collective(std::uint32_t meeting, Picoseconds now) {
  const Passage& passage = passages_[meeting];
  Picoseconds begin = now;
  for (const std::size_t port : passage.ports) {
    begin = std::max(begin, queues_.ingress_free(port));
  }
  const Picoseconds end = begin + passage.duration;
  for (const std::size_t port : passage.ports) {
    queues_.take_egress(port, end);
    queues_.take_ingress(port, end);
    queues_.leave(port);
    serve_head(port);
  }
  for (const NodeId id : graph_.meetings()[meeting].nodes) {
    begun(id, begin);
    ended(id, end);
  }
}

void EventEngine::fail_of_deadlock(NodeId id) const {
  throw PlanError(fmt::format("deadlock: {} waits for ever", graph_.describe(id)));
}

void EventEngine::require_all_done() const {
  for (const RankEvents& rank : graph_.ranks()) {
    for (NodeId id = rank.first_op; id < rank.end; ++id) {
      if (graph_.nodes()[id].missing > 0) fail_of_deadlock(id);
    }
  }
  for (const WholeExchange& exchange : graph_.exchanges()) {
    if (exchange.missing > 0) fail_of_deadlock(exchange.node);
  }
}

std::int32_t EventEngine::place(NodeId id) const {
  return graph_.ranks()[graph_.nodes()[id].rank].place;
}

std::size_t EventEngine::egress(NodeId send) const {
  return network_.egress(place(send), place(graph_.nodes()[send].partner), places_);
}

std::size_t EventEngine::ingress(NodeId send) const {
  return network_.ingress(place(send), place(graph_.nodes()[send].partner), places_);
}

}  // namespace commfuse

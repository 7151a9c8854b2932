// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/event_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>

#include "impls/verify.h"
#include "suite/error.h"

namespace commfuse {
namespace {

constexpr std::array kProtocols{Protocol::put, Protocol::rendezvous, Protocol::joint};
constexpr std::uint64_t kMostNodes = std::uint64_t{1} << 31;  // ids share a word with a flag

// How a message matches, in one number: destination, source, lane, sequence.
constexpr int kRankBits = 18;
constexpr int kSequenceBits = 26;

std::uint64_t key_of(std::size_t destination, std::size_t source, Lane lane,
                     std::uint32_t sequence) {
  if (std::max(destination, source) >> kRankBits != 0 || sequence >> kSequenceBits != 0) {
    throw std::length_error("more ranks or messages than can be simulated");
  }
  std::uint64_t key = destination;
  key = key << kRankBits | source;
  key = key << 2 | index_of(lane);
  return key << kSequenceBits | sequence;
}

}  // namespace

std::string_view name_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::put:
      return "put";
    case Protocol::rendezvous:
      return "rendezvous";
    case Protocol::joint:
      return "joint";
  }
  return "unknown";
}

Protocol parse_protocol(std::string_view text) {
  for (const Protocol protocol : kProtocols) {
    if (name_of(protocol) == text) return protocol;
  }
  throw UsageError(fmt::format("unknown protocol '{}'; there are: put, rendezvous, joint", text));
}

void EventGraph::add(const Plan& plan, std::int32_t place, std::span<const Picoseconds> op_times) {
  if (op_times.size() != plan.ops.size()) {
    throw std::invalid_argument(
        fmt::format("{} times for {} ops", op_times.size(), plan.ops.size()));
  }
  begin_rank(plan, place);
  add_nodes(plan, op_times);
  add_dependencies(plan);
  add_lane_order(plan);
  sort_edges();
}

void EventGraph::begin_rank(const Plan& plan, std::int32_t place) {
  if (plan.rank == 0) {
    require_whole_group();
    places_.emplace_back();
    meeting_of_.clear();
    group_ranks_ = static_cast<std::size_t>(plan.ranks);
  }
  if (places_.empty() || static_cast<std::size_t>(plan.rank) != places_.back().size()) {
    throw std::invalid_argument(fmt::format("rank {} comes out of turn", plan.rank));
  }
  places_.back().push_back(place);
  collectives_ = {};
  RankEvents rank;
  rank.place = place;
  rank.group = static_cast<std::uint32_t>(places_.size() - 1);
  if (nodes_.size() + plan.ops.size() + plan.messages.size() + 1 >= kMostNodes) {
    throw std::length_error("more events than can be simulated");
  }
  rank.first_op = static_cast<NodeId>(nodes_.size());
  rank.first_message = rank.first_op + static_cast<NodeId>(plan.ops.size());
  rank.end = rank.first_message + static_cast<NodeId>(plan.messages.size());
  ranks_.push_back(rank);
}

void EventGraph::require_whole_group() const {
  if (!places_.empty() && places_.back().size() != group_ranks_) {
    throw std::invalid_argument(
        fmt::format("{} of {} ranks were added", places_.back().size(), group_ranks_));
  }
}

void EventGraph::add_nodes(const Plan& plan, std::span<const Picoseconds> op_times) {
  const RankEvents& rank = ranks_.back();
  nodes_.resize(rank.end);
  for (NodeId id = rank.first_op; id < rank.end; ++id) {
    nodes_[id].rank = static_cast<std::uint32_t>(ranks_.size() - 1);
  }
  for (OpId op = 0; op < plan.ops.size(); ++op) {
    EventNode& node = nodes_[rank.first_op + op];
    node.lane = plan.ops[op].lane;
    if (const auto* exchange = std::get_if<Exchange>(&plan.ops[op].work)) {
      if (protocol_ != Protocol::put) {
        node.kind = NodeKind::exchange;
        node.end = std::ssize(exchanges_);
        exchanges_.push_back({rank.first_op + op, rank.first_message + exchange->first,
                              exchange->count, exchange->count});
      }
      add_sides(plan, op);
    } else if (std::holds_alternative<Collective>(plan.ops[op].work)) {
      node.kind = NodeKind::collective;
      add_meeting(plan, op);
    } else {
      node.kind = NodeKind::compute;
      node.end = op_times[op];
    }
  }
}

void EventGraph::add_sides(const Plan& plan, OpId op) {
  const auto& exchange = std::get<Exchange>(plan.ops[op].work);
  const Lane lane = plan.ops[op].lane;
  const RankEvents& rank = ranks_.back();
  const std::size_t self = ranks_.size() - 1;
  const std::size_t group_begin = self - static_cast<std::size_t>(plan.rank);
  for (MessageId m = exchange.first; m < exchange.first + exchange.count; ++m) {
    const Message& message = plan.messages[m];
    const std::size_t peer = group_begin + static_cast<std::size_t>(message.peer);
    const NodeId id = rank.first_message + m;
    EventNode& node = nodes_[id];
    node.kind = message.send ? NodeKind::send : NodeKind::receive;
    node.lane = lane;
    node.end = message.wire_bytes;
    if (message.send) {
      node.missing = 1;  // the other side
      sends_.push_back({key_of(peer, self, lane, message.sequence), id});
    } else {
      receives_.push_back({key_of(self, peer, lane, message.sequence), id});
    }
    if (protocol_ == Protocol::put) continue;
    ++node.missing;  // its exchange
    exchange_of_.resize(nodes_.size());
    exchange_of_[id] = static_cast<std::uint32_t>(exchanges_.size() - 1);
  }
}

void EventGraph::add_meeting(const Plan& plan, OpId op) {
  const auto& collective = std::get<Collective>(plan.ops[op].work);
  const RankEvents& rank = ranks_.back();
  const Lane lane = plan.ops[op].lane;
  const std::uint32_t number = collectives_[index_of(lane)]++;
  const auto [found, added] = meeting_of_.try_emplace({lane, number}, meetings_.size());
  const std::int64_t bytes = least_bytes_sent(collective, plan.ranks, plan.tensors);
  if (added) {
    meetings_.push_back(
        {collective.kind, bytes, rank.group, {}, static_cast<std::uint32_t>(plan.ranks)});
  }
  Meeting& meeting = meetings_[found->second];
  const NodeId id = rank.first_op + op;
  if (meeting.kind != collective.kind || meeting.bytes != bytes) {
    throw PlanError(fmt::format("{} meets {}, which is another collective", describe(id),
                                describe(meeting.nodes.front())));
  }
  meeting.nodes.push_back(id);
  nodes_[id].end = static_cast<std::int64_t>(found->second);
}

void EventGraph::edge(NodeId from, NodeId to, bool at_begin) {
  from_to_.push_back({from, {to, at_begin ? 1U : 0U}});
  ++nodes_[to].missing;
}

void EventGraph::depends(NodeId node, std::span<const Dependency> on, const Plan& plan) {
  const RankEvents& rank = ranks_.back();
  for (const Dependency& dependency : on) {
    const auto* exchange = std::get_if<Exchange>(&plan.ops[dependency.op].work);
    if (exchange == nullptr || protocol_ == Protocol::joint) {
      edge(rank.first_op + dependency.op, node, false);
    } else if (dependency.message != kWholeOp) {
      edge(rank.first_message + dependency.message, node, false);
    } else {
      for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
        edge(rank.first_message + m, node, false);
      }
    }
  }
}

void EventGraph::add_dependencies(const Plan& plan) {
  const RankEvents& rank = ranks_.back();
  for (OpId op = 0; op < plan.ops.size(); ++op) {
    const auto* exchange = std::get_if<Exchange>(&plan.ops[op].work);
    if (exchange == nullptr || protocol_ != Protocol::put) {
      depends(rank.first_op + op, plan.dependencies_of(plan.ops[op]), plan);
      continue;
    }
    for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
      depends(rank.first_message + m, plan.dependencies_of(plan.messages[m]), plan);
    }
  }
}

/// Compute ops and collectives follow each other when they have ended, exchanges and messages when
/// they have begun. On the compute lane an exchange waits for its turn like the ops.
void EventGraph::add_lane_order(const Plan& plan) {
  const RankEvents& rank = ranks_.back();
  /// What is next on a lane waits for this.
  struct Last {
    std::optional<NodeId> node;
    bool at_begin = false;
  };
  struct Lasts {
    Last whole, send, receive;  // ops and exchanges; under put, messages by direction
  };
  std::array<Lasts, kLanes> lanes;
  const auto follow = [&](Last& last, NodeId node, bool at_begin) {
    if (last.node) edge(*last.node, node, last.at_begin);
    last = {node, at_begin};
  };
  for (OpId op = 0; op < plan.ops.size(); ++op) {
    Lasts& last = lanes[index_of(plan.ops[op].lane)];
    const NodeId node = rank.first_op + op;
    const auto* exchange = std::get_if<Exchange>(&plan.ops[op].work);
    if (exchange == nullptr) {
      follow(last.whole, node, false);
      if (!std::holds_alternative<Collective>(plan.ops[op].work)) continue;
      for (Last* messages : {&last.send, &last.receive}) {
        if (messages->node) edge(*messages->node, node, messages->at_begin);
        messages->node.reset();  // the collective stands for them
      }
    } else if (protocol_ != Protocol::put) {
      follow(last.whole, node, protocol_ == Protocol::rendezvous);
    } else {
      for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
        const NodeId message = rank.first_message + m;
        if (last.whole.node) edge(*last.whole.node, message, false);
        follow(plan.messages[m].send ? last.send : last.receive, message, true);
      }
    }
  }
}

void EventGraph::sort_edges() {
  const RankEvents& rank = ranks_.back();
  std::ranges::stable_sort(from_to_, {}, &FromTo::from);
  auto next = from_to_.begin();
  for (NodeId id = rank.first_op; id < rank.end; ++id) {
    nodes_[id].first_edge = static_cast<std::uint32_t>(edges_.size());
    for (; next != from_to_.end() && next->from == id; ++next) edges_.push_back(next->edge);
  }
  from_to_.clear();
}

void EventGraph::connect() {
  if (places_.empty()) throw std::invalid_argument("there are no plans to simulate");
  require_whole_group();
  nodes_.emplace_back().first_edge = static_cast<std::uint32_t>(edges_.size());  // ends the last
  std::ranges::sort(sends_);
  std::ranges::sort(receives_);
  const std::size_t pairs = std::min(sends_.size(), receives_.size());
  for (std::size_t i = 0; i < pairs; ++i) {
    EventNode& send = nodes_[sends_[i].node];
    EventNode& receive = nodes_[receives_[i].node];
    if (sends_[i].key != receives_[i].key) {
      throw PlanError(fmt::format(
          "{} has no other side",
          describe(sends_[i].key < receives_[i].key ? sends_[i].node : receives_[i].node)));
    }
    if (send.amount() != receive.amount()) {
      throw PlanError(fmt::format("{} sends {} bytes, but {} receives {}", describe(sends_[i].node),
                                  send.amount(), describe(receives_[i].node), receive.amount()));
    }
    send.partner = receives_[i].node;
    receive.partner = sends_[i].node;
  }
  if (sends_.size() != receives_.size()) {
    const auto& more = sends_.size() > pairs ? sends_ : receives_;
    throw PlanError(fmt::format("{} has no other side", describe(more[pairs].node)));
  }
  for (const Meeting& meeting : meetings_) {
    if (meeting.nodes.size() != places_[meeting.group].size()) {
      throw PlanError(
          fmt::format("not every rank takes part in {}", describe(meeting.nodes.front())));
    }
  }
  sends_ = {};
  receives_ = {};
}

std::string EventGraph::describe(NodeId id) const {
  const std::uint32_t number = nodes_[id].rank;
  const RankEvents& rank = ranks_[number];
  return id < rank.first_message
             ? fmt::format("rank {}, op {}", number, id - rank.first_op)
             : fmt::format("rank {}, message {}", number, id - rank.first_message);
}

}  // namespace commfuse

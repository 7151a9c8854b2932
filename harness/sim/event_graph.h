// SPDX-License-Identifier: Apache-2.0
// The plans of all ranks as one graph of events, small enough for a thousand ranks: 32 bytes for an
// op or message, 4 for an edge. Built plan by plan, so that a plan need not outlive its turn.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/sim/large_pages.h"
#include "harness/sim/network.h"
#include "impls/plan.h"

namespace commfuse {

/// When a message may go.
enum class Protocol : std::uint8_t {
  put,         // once what it carries is there and its landing is free: each message on its own, in
               // the order of its lane and direction. So do copy engines, NVSHMEM and `paced`
  rendezvous,  // once both exchanges that it belongs to have started, each as a whole: when all
               // their dependencies are done and the lane has come to them. So does MPI
  joint,       // the same, and an exchange is done as a whole and holds its lane until then. So do
               // NCCL's groups
};
std::string_view name_of(Protocol protocol);
Protocol parse_protocol(std::string_view text);  // throws UsageError listing the valid names

/// Op or message of a rank; ids count over all ranks: those of a rank's ops, then of its messages.
using NodeId = std::uint32_t;

enum class NodeKind : std::uint8_t { none, compute, collective, exchange, send, receive };

/// Half of a cache line: a thousand ranks touch more of them in a turn than a cache holds.
struct EventNode {
  Picoseconds begin = 0;  // while something is missing: no earlier than this
  Picoseconds end = 0;    // before it has ended: see amount()
  NodeId partner = 0;     // of a message: its other side
  std::uint32_t first_edge = 0;
  std::uint32_t rank = 0;          // among all that were added
  std::uint32_t missing : 27 = 0;  // what it still waits for
  NodeKind kind : 3 = NodeKind::none;
  Lane lane : 2 = Lane::compute;

  /// compute: its time; message: bytes; collective: its meeting; exchange: its place among all.
  /// Only before it has ended, whose time takes its place.
  [[nodiscard]] std::int64_t amount() const { return end; }
};
static_assert(sizeof(EventNode) == 32 && kLanes <= 4);

/// An exchange that counts as a whole, which it does under rendezvous and joint.
struct WholeExchange {
  NodeId node = 0;
  NodeId first_message = 0;
  std::uint32_t messages = 0;
  std::uint32_t missing = 0;  // messages that are not done
  Picoseconds latest = 0;     // of the ends of those that are
};

/// A collective: where its ranks meet.
struct Meeting {
  CollectiveKind kind = CollectiveKind::all_gather;
  std::int64_t bytes = 0;  // that each rank sends
  std::uint32_t group = 0;
  std::vector<NodeId> nodes;  // by rank of the group, as they are added
  std::uint32_t missing = 0;  // ranks that have not come
};

struct RankEvents {
  std::int32_t place = 0;
  std::uint32_t group = 0;
  NodeId first_op = 0;
  NodeId first_message = 0;
  NodeId end = 0;
};

class EventGraph {
 public:
  explicit EventGraph(Protocol protocol) : protocol_(protocol) {}

  /// The next rank, at a place of the network. Ranks of a group are added in order, group after
  /// group. op_times has one entry per op of the plan; those of exchanges and collectives do not
  /// count. Throws std::invalid_argument where that is not so, and std::length_error where there
  /// are more events than ids.
  void add(const Plan& plan, std::int32_t place, std::span<const Picoseconds> op_times);
  /// Finds who meets whom; nothing can be added afterwards. Throws PlanError for a message without
  /// its other side, for sides of different sizes, and for collectives that differ between ranks.
  void connect();

  [[nodiscard]] Protocol protocol() const { return protocol_; }
  [[nodiscard]] std::span<const RankEvents> ranks() const { return ranks_; }
  [[nodiscard]] std::span<EventNode> nodes() { return nodes_; }
  [[nodiscard]] std::span<const EventNode> nodes() const { return nodes_; }
  [[nodiscard]] std::span<Meeting> meetings() { return meetings_; }
  /// Those of a message's side, and all; none under put.
  [[nodiscard]] WholeExchange& exchange_of(NodeId message) {
    return exchanges_[exchange_of_[message]];
  }
  [[nodiscard]] std::span<WholeExchange> exchanges() { return exchanges_; }
  [[nodiscard]] std::span<const WholeExchange> exchanges() const { return exchanges_; }
  /// By rank of the group.
  [[nodiscard]] std::span<const std::int32_t> places(std::uint32_t group) const {
    return places_[group];
  }
  /// "rank 3, op 17" or "rank 3, message 4".
  [[nodiscard]] std::string describe(NodeId id) const;

  /// What waits for a node: a node that goes on when this one begins, or when it has ended.
  struct Edge {
    NodeId to : 31;
    NodeId at_begin : 1;
  };
  [[nodiscard]] std::span<const Edge> edges() const { return edges_; }
  [[nodiscard]] std::span<const Edge> edges(NodeId id) const {
    return std::span(edges_).subspan(nodes_[id].first_edge,
                                     nodes_[id + 1].first_edge - nodes_[id].first_edge);
  }

 private:
  struct FromTo {
    NodeId from = 0;
    Edge edge{};
  };
  struct Side {
    std::uint64_t key = 0;  // how it matches, see key_of()
    NodeId node = 0;
    auto operator<=>(const Side&) const = default;
  };

  void begin_rank(const Plan& plan, std::int32_t place);
  void require_whole_group() const;
  void add_nodes(const Plan& plan, std::span<const Picoseconds> op_times);
  void add_meeting(const Plan& plan, OpId op);
  void add_sides(const Plan& plan, OpId op);
  void add_dependencies(const Plan& plan);
  void add_lane_order(const Plan& plan);
  void depends(NodeId node, std::span<const Dependency> on, const Plan& plan);
  void edge(NodeId from, NodeId to, bool at_begin);
  void sort_edges();

  Protocol protocol_;
  LargeVector<EventNode> nodes_;
  LargeVector<Edge> edges_;
  std::vector<RankEvents> ranks_;
  std::vector<Meeting> meetings_;
  std::vector<WholeExchange> exchanges_;
  std::vector<std::uint32_t> exchange_of_;           // by node; of messages
  std::vector<std::vector<std::int32_t>> places_;    // by group
  std::vector<Side> sends_, receives_;               // until connect()
  std::vector<FromTo> from_to_;                      // of the rank that is being added
  std::array<std::uint32_t, kLanes> collectives_{};  // of that rank, by lane
  std::size_t group_ranks_ = 0;                      // of the group that is being added
  std::map<std::pair<Lane, std::uint32_t>, std::size_t> meeting_of_;  // lane, number on it
};

}  // namespace commfuse

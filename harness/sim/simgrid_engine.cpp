// SPDX-License-Identifier: Apache-2.0
// Actors run one at a time and give way only where simulated time passes, so they share the graph
// without locks.
#include "harness/sim/simgrid_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <stdexcept>

#include <simgrid/s4u.hpp>

#include "harness/sim/simgrid_platform.h"
#include "impls/verify.h"

namespace commfuse {
namespace {

namespace s4u = simgrid::s4u;

double seconds(Picoseconds time) { return static_cast<double>(time) * 1e-12; }

/// What an actor still has to do, in the order in which it came up.
template <class Item>
class Inbox {
 public:
  void put(Item item) {
    items_.push_back(std::move(item));
    filled_->release();
  }
  Item take() {
    filled_->acquire();
    Item item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

 private:
  std::deque<Item> items_;
  s4u::SemaphorePtr filled_ = s4u::Semaphore::create(0);
};

/// A message that has left, and when it is there.
struct Arrival {
  NodeId send = 0;
  double at = 0;
};

/// The collective that a rank takes part in next.
using Attendance = std::uint32_t;

/// Messages that arrive within the node and from others: each in the order in which they left.
constexpr std::size_t kWays = 2;

struct RankActors {
  Inbox<NodeId> compute;
  std::array<Inbox<NodeId>, kLanes> sends;
  std::array<std::array<Inbox<Arrival>, kWays>, kLanes> arrivals;
  Inbox<Attendance> collectives;
};

/// One graph, from the start of its actors to the end of its last event.
class GraphRun {
 public:
  GraphRun(EventGraph& graph, const Network& network, const SimGridHosts& hosts)
      : graph_(graph),
        network_(network),
        hosts_(hosts),
        start_(s4u::Engine::get_clock()),
        ranks_(graph.ranks().size()) {
    for (const Meeting& meeting : graph_.meetings()) {
      barriers_.push_back(s4u::Barrier::create(static_cast<unsigned int>(meeting.nodes.size())));
    }
  }

  std::uint64_t run(s4u::Engine& engine) {
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) start_actors(rank);
    for (const RankEvents& rank : graph_.ranks()) {
      for (NodeId id = rank.first_op; id < rank.end; ++id) {
        if (node(id).missing == 0) first_.push_back(id);
      }
    }
    s4u::Actor::create("starter", hosts_.host(0), [this] {
      for (const NodeId id : first_) ready(id);
    });
    engine.run();
    require_all_ended();
    return events_;
  }

 private:
  EventNode& node(NodeId id) { return graph_.nodes()[id]; }
  [[nodiscard]] Picoseconds now() const {
    return std::llround((s4u::Engine::get_clock() - start_) * 1e12);
  }
  [[nodiscard]] std::int32_t place(std::uint32_t rank) const { return graph_.ranks()[rank].place; }

  // ---- what waits for what, as EventEngine has it

  void arrive(NodeId id) {
    if (--node(id).missing == 0) ready(id);
  }
  void begun(NodeId id) {
    node(id).begin = now();
    for (const EventGraph::Edge& edge : graph_.edges(id)) {
      if (edge.at_begin) arrive(edge.to);
    }
  }
  void ended(NodeId id) {
    node(id).end = now();
    node(id).kind = NodeKind::none;
    ++events_;
    for (const EventGraph::Edge& edge : graph_.edges(id)) {
      if (!edge.at_begin) arrive(edge.to);
    }
  }
  void ready(NodeId id) {
    RankActors& actors = ranks_[node(id).rank];
    switch (node(id).kind) {
      case NodeKind::compute:
        actors.compute.put(id);
        break;
      case NodeKind::send:
        actors.sends[index_of(node(id).lane)].put(id);  // before those that follow it
        begun(id);
        break;
      case NodeKind::receive:
        begun(id);
        arrive(node(id).partner);
        break;
      case NodeKind::collective:
        come_to_meeting(id);
        break;
      case NodeKind::exchange:
      case NodeKind::none:
        break;
    }
  }
  void come_to_meeting(NodeId id) {
    const auto number = static_cast<std::uint32_t>(node(id).amount());
    Meeting& meeting = graph_.meetings()[number];
    if (--meeting.missing > 0) return;
    for (const NodeId member : meeting.nodes) {
      ranks_[node(member).rank].collectives.put(number);
    }
  }

  // ---- actors

  /// Actors take as many items as there will be, and end.
  void start_actors(std::uint32_t rank) {
    const RankEvents& events = graph_.ranks()[rank];
    std::size_t computes = 0;
    std::size_t collectives = 0;
    std::array<std::size_t, kLanes> sends{};
    std::array<std::array<std::size_t, kWays>, kLanes> arrivals{};
    for (NodeId id = events.first_op; id < events.end; ++id) {
      const EventNode& event = node(id);
      if (event.kind == NodeKind::compute) ++computes;
      if (event.kind == NodeKind::collective) ++collectives;
      if (event.kind != NodeKind::send) continue;
      ++sends[index_of(event.lane)];
      ++arrivals[index_of(event.lane)][way_of(id)];
    }
    start(rank, computes, [this, rank] { compute(ranks_[rank].compute.take()); });
    start(rank, collectives, [this, rank] { attend(ranks_[rank].collectives.take(), rank); });
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      start(rank, sends[lane], [this, rank, lane] { send(ranks_[rank].sends[lane].take()); });
      for (std::size_t way = 0; way < kWays; ++way) {
        start(rank, arrivals[lane][way],
              [this, rank, lane, way] { land(ranks_[rank].arrivals[lane][way].take()); });
      }
    }
  }
  void start(std::uint32_t rank, std::size_t times, std::function<void()> step) {
    if (times == 0) return;
    s4u::Actor::create("actor", hosts_.host(place(rank)), [times, step = std::move(step)] {
      for (std::size_t i = 0; i < times; ++i) step();
    });
  }

  void compute(NodeId id) {
    begun(id);
    s4u::this_actor::sleep_for(seconds(node(id).amount()));
    ended(id);
  }

  [[nodiscard]] std::size_t way_of(NodeId send) {
    return network_.same_node(place(node(send).rank), place(node(node(send).partner).rank)) ? 0 : 1;
  }

  void send(NodeId id) {
    const std::int32_t from = place(node(id).rank);
    const std::int32_t to = place(node(node(id).partner).rank);
    node(id).begin = node(node(id).partner).begin = now();
    move(from, to, static_cast<double>(node(id).amount()));
    const double latency = network_.link(from, to).latency_seconds;
    ranks_[node(id).rank].arrivals[index_of(node(id).lane)][way_of(id)].put(
        {id, s4u::Engine::get_clock() + latency});
  }
  void land(const Arrival& arrival) {
    s4u::this_actor::sleep_until(arrival.at);
    const NodeId receive = node(arrival.send).partner;
    ended(arrival.send);
    ended(receive);
  }

  /// SimGrid counts whole bytes, so blocks of collectives are rounded to them.
  void move(std::int32_t from, std::int32_t to, double bytes) const {
    s4u::Comm::sendto(hosts_.host(from), hosts_.host(to),
                      static_cast<std::uint64_t>(std::llround(bytes)));
  }

  void attend(Attendance number, std::uint32_t rank) {
    const Meeting& meeting = graph_.meetings()[number];
    const auto places = graph_.places(meeting.group);
    const std::size_t self = rank - graph_.nodes()[meeting.nodes.front()].rank;
    const std::size_t others = places.size() - 1;
    const NodeId id = meeting.nodes[self];
    begun(id);
    const bool twice = meeting.kind == CollectiveKind::all_reduce;
    const bool ring = network_.algorithm == CollectiveAlgorithm::ring &&
                      meeting.kind != CollectiveKind::all_to_all;
    const double block = static_cast<double>(meeting.bytes) /
                         static_cast<double>(std::max<std::size_t>(others, 1) * (twice ? 2 : 1));
    for (std::size_t step = 0; step < others * (twice ? 2 : 1); ++step) {
      const std::size_t distance = ring ? 1 : step % others + 1;
      const std::int32_t to = places[(self + distance) % places.size()];
      move(places[self], to, block);
      s4u::this_actor::sleep_for(
          network_.step_latency(meeting.kind, network_.link(places[self], to)));
      barriers_[number]->wait();
    }
    ended(id);
  }

  void require_all_ended() const {
    for (const RankEvents& rank : graph_.ranks()) {
      for (NodeId id = rank.first_op; id < rank.end; ++id) {
        if (graph_.nodes()[id].kind == NodeKind::none) continue;
        throw PlanError(fmt::format("deadlock: {} waits for ever", graph_.describe(id)));
      }
    }
  }

  EventGraph& graph_;
  const Network& network_;
  const SimGridHosts& hosts_;
  double start_;
  std::vector<RankActors> ranks_;
  std::vector<s4u::BarrierPtr> barriers_;  // by meeting
  std::vector<NodeId> first_;              // ready from the start
  std::uint64_t events_ = 0;
};

}  // namespace

class SimGridEngine::Platform {
 public:
  Platform(const Network& network, std::int32_t places, const std::string& fat_tree)
      : network_(network), hosts_(network, places, fat_tree) {}

  std::uint64_t run(EventGraph& graph) {
    for (const RankEvents& rank : graph.ranks()) {
      if (static_cast<std::size_t>(rank.place) >= hosts_.size()) {
        throw std::invalid_argument(fmt::format("there is no place {}", rank.place));
      }
    }
    return GraphRun(graph, network_, hosts_).run(hosts_.engine());
  }

 private:
  Network network_;
  SimGridHosts hosts_;
};

SimGridEngine::SimGridEngine(const Network& network, std::int32_t places,
                             const std::string& fat_tree)
    : platform_(std::make_unique<Platform>(network, places, fat_tree)) {}

SimGridEngine::~SimGridEngine() = default;

std::uint64_t SimGridEngine::run(EventGraph& graph) {
  if (graph.protocol() != Protocol::put) {
    throw std::invalid_argument("SimGrid simulates protocol put only");
  }
  return platform_->run(graph);
}

}  // namespace commfuse

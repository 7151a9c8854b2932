// SPDX-License-Identifier: Apache-2.0
// The plans of all ranks in simulated time, and the ordinary timelines of it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "harness/record/timeline.h"
#include "harness/sim/event_graph.h"
#include "harness/sim/network.h"

namespace commfuse {

class Simulation {
 public:
  Simulation(const Network& network, Protocol protocol) : network_(network), graph_(protocol) {}

  /// As EventGraph::add().
  void add(const Plan& plan, std::int32_t place, std::span<const Picoseconds> op_times);
  /// Fills the times of a connected graph; returns how many events there were.
  using Engine = std::function<std::uint64_t(EventGraph&, const Network&)>;

  /// Once, when all ranks are there: by EventEngine, or by another engine. Throws PlanError as
  /// EventGraph and the engine do.
  void run();
  void run(const Engine& engine);

  [[nodiscard]] std::size_t ranks() const { return spans_.size(); }
  /// From 0 to the end of the rank's last op or message; times are rounded to nanoseconds.
  [[nodiscard]] Timeline timeline(std::size_t rank) const;
  /// When the last op or message of a rank ended, and when that of all ranks did.
  [[nodiscard]] Picoseconds end(std::size_t rank) const;
  [[nodiscard]] Picoseconds end() const;
  /// Ops and messages by every rank that takes part in them.
  [[nodiscard]] std::uint64_t events() const { return events_; }
  /// Wall time that the engine took for them; finding who meets whom does not count.
  [[nodiscard]] double engine_seconds() const { return engine_seconds_; }
  [[nodiscard]] const EventGraph& graph() const { return graph_; }

 private:
  Network network_;
  EventGraph graph_;
  std::vector<std::vector<Span>> spans_;  // without times
  std::uint64_t events_ = 0;
  double engine_seconds_ = 0;
};

}  // namespace commfuse

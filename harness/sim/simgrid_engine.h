// SPDX-License-Identifier: Apache-2.0
// A second engine, by SimGrid (Casanova et al., 2014): links that are shared get max-min fair
// shares of their bandwidth, where the ports of EventEngine serve first come, first served. Where
// nothing is shared the two must agree, and each is the other's oracle.
//
// Every rank has actors: one for its compute lane, one for the sends of each lane, which go one
// after the other, and one that takes part in collectives, whose steps are real transfers. Links
// have no latency: the arrival is delayed instead, so that a link is busy for bytes / rate as a
// port is. The network model is CM02 without its corrections for TCP, which would scale latencies
// and rates.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "harness/sim/event_graph.h"
#include "harness/sim/network.h"

namespace commfuse {

/// Of a platform with links within nodes and between them as Network has them, or of a fat tree
/// whose leaves are the ranks. One per process, because SimGrid has one.
class SimGridEngine {
 public:
  /// `fat_tree` is SimGrid's text, "2;4,4;1,2;1,2" (levels; children; parents; parallel links): all
  /// links have the speed of network.inner. Empty: the network's own shape. Throws UsageError for
  /// a tree that it does not understand or that has fewer leaves than `places`.
  SimGridEngine(const Network& network, std::int32_t places, const std::string& fat_tree = "");
  ~SimGridEngine();
  SimGridEngine(const SimGridEngine&) = delete;
  SimGridEngine& operator=(const SimGridEngine&) = delete;

  /// Fills the times of a connected graph whose protocol is put and whose places exist; returns
  /// how many events there were. Any number of graphs, one after the other. Throws PlanError where
  /// something waits for ever, std::invalid_argument for another protocol.
  std::uint64_t run(EventGraph& graph);

 private:
  class Platform;
  std::unique_ptr<Platform> platform_;
};

}  // namespace commfuse

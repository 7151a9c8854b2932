// SPDX-License-Identifier: Apache-2.0
// Hosts and links of a Network for SimGrid.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <simgrid/s4u.hpp>

#include "harness/sim/network.h"

namespace commfuse {

/// A host for every place, in order. Routes between hosts of a node take the sender's link up and
/// the receiver's link down; those between nodes the links of their NICs. Sets up the process's
/// only s4u::Engine.
class SimGridHosts {
 public:
  SimGridHosts(const Network& network, std::int32_t places, const std::string& fat_tree);

  [[nodiscard]] simgrid::s4u::Engine& engine() { return engine_; }
  [[nodiscard]] simgrid::s4u::Host* host(std::int32_t place) const {
    return hosts_[static_cast<std::size_t>(place)];
  }
  [[nodiscard]] std::size_t size() const { return hosts_.size(); }

 private:
  void build(const Network& network, std::int32_t places);
  void build_fat_tree(const Network& network, std::int32_t places, const std::string& fat_tree);

  simgrid::s4u::Engine engine_;
  std::vector<simgrid::s4u::Host*> hosts_;
};

}  // namespace commfuse

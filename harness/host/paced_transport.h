// SPDX-License-Identifier: Apache-2.0
// paced: real data through shared memory, visible when a link of the stated speed would have
// delivered it.
//
// A message starts at max(its dependencies done, the matching receive posted, both ports free),
// keeps its sender's egress port and its receiver's ingress port busy for bytes/bandwidth, and is
// complete on both sides one latency later. A collective starts when every rank has arrived and all
// ports are free, and takes ranks-1 steps of a latency and a block's time each, like a ring; an
// all-reduce takes twice as many. All of that is arithmetic on the times at which compute ops
// ended; when the wire's thread happens to wake up does not enter. Only where a copy ends later
// than its computed time does the real time count, and that is reported.
#pragma once

#include <memory>
#include <utility>

#include "harness/host/transport.h"
#include "harness/host/wire_thread.h"
#include "harness/world/world.h"

namespace commfuse {

/// One per rank. The ranks of the group share one node. Has one thread, which sleeps whenever there
/// is nothing to move.
class PacedTransport final : public Transport {
 public:
  explicit PacedTransport(World& group);

  [[nodiscard]] bool shares_memory() const override { return true; }
  /// For the runs that follow; the same on every rank.
  void set_link(const LinkSpeed& link) override { link_ = link; }
  WireReport take_report() override { return std::exchange(report_, {}); }
  std::unique_ptr<Channel> open(const Program& program, std::span<const Storage> storages) override;

 private:
  World& group_;
  LinkSpeed link_;
  WireReport report_;
  WireThread thread_;
};

}  // namespace commfuse

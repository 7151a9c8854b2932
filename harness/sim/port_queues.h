// SPDX-License-Identifier: Apache-2.0
// First come, first served: what wants to leave through a port waits in its queue, and the head of
// the queue holds the port until it has also got the port through which it arrives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "harness/sim/network.h"

namespace commfuse {

/// Whatever its owner wants it to mean.
using QueueItem = std::uint32_t;

class PortQueues {
 public:
  explicit PortQueues(std::size_t ports)
      : queues_(ports), egress_free_(ports, 0), ingress_free_(ports, 0) {}

  [[nodiscard]] bool idle(std::size_t port, Picoseconds now) const {
    return queues_[port].empty() && egress_free_[port] <= now;
  }
  /// Whether the item is the head of the queue now.
  bool join(std::size_t port, QueueItem item) {
    queues_[port].push_back(item);
    return queues_[port].size() == 1;
  }
  [[nodiscard]] bool empty(std::size_t port) const { return queues_[port].empty(); }
  [[nodiscard]] QueueItem head(std::size_t port) const { return queues_[port].front(); }
  void leave(std::size_t port) { queues_[port].pop_front(); }

  [[nodiscard]] Picoseconds egress_free(std::size_t port) const { return egress_free_[port]; }
  [[nodiscard]] Picoseconds ingress_free(std::size_t port) const { return ingress_free_[port]; }
  void take_egress(std::size_t port, Picoseconds until) { egress_free_[port] = until; }
  void take_ingress(std::size_t port, Picoseconds until) { ingress_free_[port] = until; }

 private:
  std::vector<std::deque<QueueItem>> queues_;
  std::vector<Picoseconds> egress_free_, ingress_free_;
};

}  // namespace commfuse

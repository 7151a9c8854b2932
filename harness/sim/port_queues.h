// SPDX-License-Identifier: Apache-2.0
// First come, first served: what wants to leave through a port waits in its queue, and the head of
// the queue holds the port until it has also got the port through which it arrives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/sim/network.h"

namespace commfuse {

/// Whatever its owner wants it to mean.
using QueueItem = std::uint32_t;

class PortQueues {
 public:
  explicit PortQueues(std::size_t ports) : ports_(ports) {}

  [[nodiscard]] bool idle(std::size_t port, Picoseconds now) const {
    return empty(port) && ports_[port].egress_free <= now;
  }
  /// Whether the item is the head of the queue now.
  bool join(std::size_t port, QueueItem item) {
    ports_[port].queue.push_back(item);
    return ports_[port].queue.size() == ports_[port].left + 1;
  }
  [[nodiscard]] bool empty(std::size_t port) const {
    return ports_[port].queue.size() == ports_[port].left;
  }
  [[nodiscard]] QueueItem head(std::size_t port) const {
    return ports_[port].queue[ports_[port].left];
  }
  void leave(std::size_t port) {
    Port& from = ports_[port];
    // Those that left are forgotten once they are most of the queue, so leaving costs no more than
    // joining did, and a short queue stays in one place of memory.
    if (2 * ++from.left < from.queue.size()) return;
    from.queue.erase(from.queue.begin(), from.queue.begin() + from.left);
    from.left = 0;
  }

  [[nodiscard]] Picoseconds egress_free(std::size_t port) const { return ports_[port].egress_free; }
  [[nodiscard]] Picoseconds ingress_free(std::size_t port) const {
    return ports_[port].ingress_free;
  }
  void take_egress(std::size_t port, Picoseconds until) { ports_[port].egress_free = until; }
  void take_ingress(std::size_t port, Picoseconds until) { ports_[port].ingress_free = until; }

 private:
  struct Port {
    Picoseconds egress_free = 0, ingress_free = 0;
    std::vector<QueueItem> queue;
    std::uint32_t left = 0;  // of the queue's items, from its begin
  };
  std::vector<Port> ports_;
};

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// One egress and one ingress port per rank, first come first served: when a transfer may have the
// wire. Pure arithmetic on given times; lies in shared memory and serves all ranks of a group.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <span>

namespace commfuse {

/// Locks between processes for as long as it lives.
class SharedLock {
 public:
  explicit SharedLock(pthread_mutex_t& mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~SharedLock() { pthread_mutex_unlock(&mutex_); }
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

/// Initialises a mutex that lies in shared memory.
void make_shared_mutex(pthread_mutex_t& mutex);

/// When the ports of one rank are free again.
struct Port {
  std::int64_t egress_free_ns = 0;
  std::int64_t ingress_free_ns = 0;
};

/// A view of the ports of all ranks. The caller holds the lock that guards them.
class Ports {
 public:
  explicit Ports(std::span<Port> ports) : ports_(ports) {}

  /// A message that is ready at `ready_ns` and keeps both its ports busy for `busy_ns`: takes them
  /// from the time that is returned.
  std::int64_t reserve(std::int32_t source, std::int32_t destination, std::int64_t ready_ns,
                       std::int64_t busy_ns);
  /// The same for something that needs all ports of all ranks.
  std::int64_t reserve_all(std::int64_t ready_ns, std::int64_t busy_ns);

 private:
  std::span<Port> ports_;
};

}  // namespace commfuse

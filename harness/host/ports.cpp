// SPDX-License-Identifier: Apache-2.0
#include "harness/host/ports.h"

#include <algorithm>
#include <system_error>

namespace commfuse {

void make_shared_mutex(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  const int error = pthread_mutex_init(&mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  if (error != 0) throw std::system_error(error, std::generic_category(), "pthread_mutex_init");
}

std::int64_t Ports::reserve(std::int32_t source, std::int32_t destination, std::int64_t ready_ns,
                            std::int64_t busy_ns) {
  std::int64_t& egress = ports_[static_cast<std::size_t>(source)].egress_free_ns;
  std::int64_t& ingress = ports_[static_cast<std::size_t>(destination)].ingress_free_ns;
  const std::int64_t start = std::max({ready_ns, egress, ingress});
  egress = ingress = start + busy_ns;
  return start;
}

std::int64_t Ports::reserve_all(std::int64_t ready_ns, std::int64_t busy_ns) {
  std::int64_t start = ready_ns;
  for (const Port& port : ports_) {
    start = std::max({start, port.egress_free_ns, port.ingress_free_ns});
  }
  for (Port& port : ports_) port.egress_free_ns = port.ingress_free_ns = start + busy_ns;
  return start;
}

}  // namespace commfuse

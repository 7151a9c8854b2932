// SPDX-License-Identifier: Apache-2.0
#include "harness/world/sense_barrier.h"

#include <sched.h>

namespace commfuse {
namespace {

// Between two looks at the clock; and a core that a rank believed to be its own may have another
// thread waiting for it.
constexpr int kPausesPerYield = 4096;

}  // namespace

bool SenseBarrier::arrive_and_wait(std::uint32_t ranks, std::int64_t spin_ns) noexcept {
  // Before looking at broken_: a break after that look has rung the bell after this one.
  const std::uint32_t seen = bell_.sequence();
  if (broken_.load(std::memory_order_acquire) != 0) return false;
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == ranks) {
    arrived_.store(0, std::memory_order_relaxed);  // ring() publishes it
    bell_.ring();
  } else {
    wait_past(seen, spin_ns);
  }
  return broken_.load(std::memory_order_acquire) == 0;
}

void SenseBarrier::wait_past(std::uint32_t seen, std::int64_t spin_ns) noexcept {
  const std::int64_t start_ns = monotonic_ns();
  while (spin_ns == kNeverNs || monotonic_ns() - start_ns < spin_ns) {
    for (int pause = 0; pause < kPausesPerYield; ++pause) {
      if (bell_.sequence() != seen) return;
      cpu_pause();
    }
    sched_yield();
  }
  bell_.wait_past(seen, kNeverNs);
}

void SenseBarrier::break_for_ever() noexcept {
  broken_.store(1, std::memory_order_release);
  bell_.ring();
}

}  // namespace commfuse

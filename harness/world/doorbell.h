// SPDX-License-Identifier: Apache-2.0
// Doorbell: lets a thread sleep until another thread, of this process or of another one, says that
// something happened, or until a time comes. A pair of words that may lie in a SharedSegment.
//
// The state that the sleeper looks at is not the doorbell's: change it (release), then ring().
//
//   waker                         sleeper
//   arrived.store(n, release);    bell.wait_until([&] { return arrived.load(acquire) >= n; },
//   bell.ring();                                  deadline_ns, kSpinNs);
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

#include "harness/world/clock.h"

namespace commfuse {

/// A deadline that never comes.
inline constexpr std::int64_t kNeverNs = std::numeric_limits<std::int64_t>::max();
/// How long before its deadline a sleeper that wants to be punctual starts to spin: more than a
/// timer's wake-up takes on an idle core.
inline constexpr std::int64_t kSpinNs = 60'000;

/// All-zero bytes are a doorbell that was never rung, so zeroed shared memory may be used as one
/// (std::construct_at by one rank, or reinterpret it; the type is trivially destructible). Any
/// number of wakers and sleepers; nothing here throws or allocates.
class Doorbell {
 public:
  Doorbell() = default;
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  /// Wakes every sleeper. Without sleepers this costs one atomic add and no system call.
  void ring() noexcept;

  /// How often it was rung, modulo 2^32. Everything done before those rings is visible.
  [[nodiscard]] std::uint32_t sequence() const noexcept {
    return sequence_.load(std::memory_order_acquire);
  }

  /// Sleeps until sequence() differs from `seen` (true) or monotonic_ns() reaches `deadline_ns`
  /// (false). From `spin_ns` before the deadline on it spins instead of sleeping: a timer alone is
  /// late by 50 us and more, see sharpen_timers(). Never returns early without one of the two.
  bool wait_past(std::uint32_t seen, std::int64_t deadline_ns, std::int64_t spin_ns = 0) noexcept;

  /// Sleeps until ready() (true) or the deadline (false). ready() is asked once at the start, after
  /// every ring, and at the deadline; it must not sleep.
  template <class Ready>
  bool wait_until(Ready&& ready, std::int64_t deadline_ns, std::int64_t spin_ns = 0) {
    for (;;) {
      const std::uint32_t seen = sequence();
      if (ready()) return true;
      if (!wait_past(seen, deadline_ns, spin_ns)) return ready();
    }
  }

 private:
  std::atomic<std::uint32_t> sequence_{0};
  std::atomic<std::uint32_t> sleepers_{0};  // too large if a sleeper was killed: costs calls only
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);  // works across processes

/// Sleeps until monotonic_ns() reaches `deadline_ns`, the last `spin_ns` of it spinning.
void sleep_until(std::int64_t deadline_ns, std::int64_t spin_ns = 0) noexcept;

/// Sets the calling thread's timer slack from the usual 50 us to 1 ns: its sleeps then end within
/// some microseconds of their deadline where the core is idle. For threads that keep time.
void sharpen_timers() noexcept;

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/world/doorbell.h"

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

namespace commfuse {
namespace {

// Not the _PRIVATE operations: waker and sleeper may be different processes.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                const timespec* deadline) noexcept {
  // WAIT_BITSET, unlike WAIT, takes an absolute CLOCK_MONOTONIC time.
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, seen, deadline, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void futex_wake_all(const std::atomic<std::uint32_t>& word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

void Doorbell::ring() noexcept {
  // Sequentially consistent, like the sleeper's: either the sleeper's wait sees the new sequence,
  // or its registration is seen here.
  sequence_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) futex_wake_all(sequence_);
}

bool Doorbell::wait_past(std::uint32_t seen, std::int64_t deadline_ns,
                         std::int64_t spin_ns) noexcept {
  const bool timed = deadline_ns != kNeverNs;
  const std::int64_t wake_ns = timed ? deadline_ns - spin_ns : kNeverNs;
  if (sequence() != seen) return true;
  if (!timed || monotonic_ns() < wake_ns) {
    const timespec wake = timed ? to_timespec(wake_ns) : timespec{};
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    while (sequence_.load(std::memory_order_seq_cst) == seen &&
           (!timed || monotonic_ns() < wake_ns)) {
      futex_wait(sequence_, seen, timed ? &wake : nullptr);
    }
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }
  for (;;) {
    if (sequence() != seen) return true;
    if (monotonic_ns() >= deadline_ns) return false;
    cpu_pause();
  }
}

void sleep_until(std::int64_t deadline_ns, std::int64_t spin_ns) noexcept {
  const timespec wake = to_timespec(deadline_ns > spin_ns ? deadline_ns - spin_ns : 0);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, nullptr) == EINTR) {
  }
  while (monotonic_ns() < deadline_ns) cpu_pause();
}

void sharpen_timers() noexcept { prctl(PR_SET_TIMERSLACK, 1UL); }

}  // namespace commfuse

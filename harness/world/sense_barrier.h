// SPDX-License-Identifier: Apache-2.0
// SenseBarrier: a barrier over memory that all ranks see, between threads or between processes.
// On one node its ranks leave within a microsecond of each other where every rank has a core, which
// MPI_Barrier does not promise.
#pragma once

#include <atomic>
#include <cstdint>

#include "harness/world/doorbell.h"

namespace commfuse {

/// All-zero bytes are a barrier that nobody has reached, so zeroed shared memory may be used as
/// one. The doorbell's sequence is the sense: it changes when the last rank arrives.
class SenseBarrier {
 public:
  SenseBarrier() = default;
  SenseBarrier(const SenseBarrier&) = delete;
  SenseBarrier& operator=(const SenseBarrier&) = delete;

  /// Returns once `ranks` callers have arrived; the same number in every call. Waits spinning for
  /// `spin_ns` (kNeverNs: always), sleeping after that; each caller may choose differently. False
  /// if the barrier was broken, true if all arrived. Makes what any caller did before it visible to
  /// all after it.
  [[nodiscard]] bool arrive_and_wait(std::uint32_t ranks, std::int64_t spin_ns) noexcept;

  /// Lets everybody out, now and for ever: a rank failed and will never arrive.
  void break_for_ever() noexcept;

 private:
  void wait_past(std::uint32_t seen, std::int64_t spin_ns) noexcept;

  // Arrivals write one line, the waiting read another: a spinning rank does not slow the others.
  alignas(64) std::atomic<std::uint32_t> arrived_{0};
  alignas(64) Doorbell bell_;
  std::atomic<std::uint32_t> broken_{0};
};

}  // namespace commfuse

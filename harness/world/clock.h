// SPDX-License-Identifier: Apache-2.0
// The clock of every wall-clock measurement: CLOCK_MONOTONIC, which all processes of a node share.
#pragma once

#include <cstdint>
#include <ctime>

namespace commfuse {

/// Nanoseconds of CLOCK_MONOTONIC: comparable between the ranks of one node, not between nodes.
[[nodiscard]] inline std::int64_t monotonic_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

/// A CLOCK_MONOTONIC time in nanoseconds, zero or later, as the system calls take it.
[[nodiscard]] inline timespec to_timespec(std::int64_t ns) noexcept {
  return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}

/// Tells the core that this is a spin loop; yields nothing to other threads.
inline void cpu_pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

}  // namespace commfuse

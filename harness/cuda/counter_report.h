// SPDX-License-Identifier: Apache-2.0
// Which counters of a rank a hanging iteration still wants, in words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/cuda/ce_protocol.h"

namespace commfuse {

/// A counter that this rank waits for.
struct AwaitedCounter {
  std::size_t offset = 0;  // in bytes, in the memory of counters
  std::string text;        // "credit of rank 1 for op 5, send ..."
};

/// Counters as the host sees them while streams of the device wait. Room for them is taken when
/// this is made, since a device that hangs gives none.
class CounterSnapshot {
 public:
  explicit CounterSnapshot(std::size_t bytes);
  /// Copies them from `counters`; empty where they cannot be read within a third of a second, for
  /// example because all queues of the device are taken by streams that wait.
  [[nodiscard]] std::span<const std::byte> take(const std::byte* counters);

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t bytes_;
};

/// A line for each counter that lacks the value of this iteration, with the value wanted and there;
/// of many the first ones, and how many more there are.
std::string behind(std::span<const std::byte> snapshot, std::span<const AwaitedCounter> awaited,
                   const CounterProtocol& protocol, Epoch epoch);

}  // namespace commfuse

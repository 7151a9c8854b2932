// SPDX-License-Identifier: Apache-2.0
// The counters by which ranks tell each other about blocks, in memory that their peers write to.
//
// Every block that travels has two: its arrival lies with the receiver and is written by the sender
// once the block is there; its credit lies with the sender and is written by the receiver once the
// place of the block is free. What they hold is the business of a protocol, see ce_protocol.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/cuda/cuda_transport.h"
#include "harness/cuda/driver_functions.h"

namespace commfuse {

/// Each counter is alone in its line, so that remote writes do not meet.
constexpr std::size_t kCounterBytes = 128;

/// What a counter holds at an iteration. Waits compare cyclically, so it may wrap around.
constexpr std::uint32_t counter_value(Epoch epoch) { return static_cast<std::uint32_t>(epoch); }

class CounterOps {
 public:
  /// `flush`: the device can make remote writes that came before a value visible; then waits ask
  /// for it.
  CounterOps(const StreamValueFunctions& functions, bool flush)
      : functions_(functions), flush_(flush) {}

  /// After all that the stream has done before, as seen by every device.
  void write(cudaStream_t stream, std::byte* counter, std::uint32_t value) const;
  /// Until the counter has reached the value, by cyclic comparison.
  void wait_until_reached(cudaStream_t stream, const std::byte* counter, std::uint32_t value) const;
  /// Until the counter holds the value.
  void wait_for_value(cudaStream_t stream, const std::byte* counter, std::uint32_t value) const;

 private:
  void wait(cudaStream_t stream, const std::byte* counter, std::uint32_t value,
            unsigned int comparison) const;

  StreamValueFunctions functions_;
  bool flush_;
};

}  // namespace commfuse

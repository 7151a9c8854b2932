// SPDX-License-Identifier: Apache-2.0
// What counters hold, and so what is written to them and waited for. Two protocols:
//
//   epochs     the number of the iteration, which only grows for as long as the counters live, so a
//              value left over never means the iteration to come
//   constants  0, and 1 once it has come to pass in this iteration; who waits puts it back to 0.
//              For graphs, whose values are frozen: an epoch that a replay finds is not too small,
//              it is left over, and its waits end before anything came
//
// With constants an iteration finds all counters 0 and leaves them so. A counter with one waiter is
// put back by it, right after its wait. An arrival that several streams wait for is put back once
// the iteration has ended in all of them: at the receiver's own credit would be too early, since
// nothing but that credit's stream would know that the 1 is not left over. In both cases the next 1
// comes later: a peer sends only what it has the next iteration's credit for, and gives the next
// credit only after it has received what it gave the last one for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/cuda/ce_counters.h"
#include "harness/cuda/cuda_transport.h"
#include "harness/cuda/issue.h"

namespace commfuse {

/// Chosen when a channel is opened, the same on all ranks; then a copy in each of its parts.
class CounterProtocol {
 public:
  /// constants for graphs, else epochs. `counters` outlives this.
  CounterProtocol(const CounterOps& counters, Issue issue)
      : counters_(&counters), constants_(issue == Issue::graph) {}

  /// What a counter holds once it has come to pass in the iteration, and whether a value says so.
  /// A constant says it only until it is taken.
  [[nodiscard]] std::uint32_t value(Epoch epoch) const;
  [[nodiscard]] bool reached(std::uint32_t value, Epoch epoch) const;

  /// It has come to pass in the iteration, after all that the stream has done before.
  void tell(cudaStream_t stream, std::byte* counter, Epoch epoch) const;
  /// Until it has. `wait` for counters that several streams may wait for, `take` for the only wait
  /// of the iteration.
  void wait(cudaStream_t stream, const std::byte* counter, Epoch epoch) const;
  void take(cudaStream_t stream, std::byte* counter, Epoch epoch) const;
  /// Puts back a counter that was waited for by `wait`, on a stream that comes after all of these.
  void put_back(cudaStream_t stream, std::byte* counter) const;

 private:
  const CounterOps* counters_;
  bool constants_;
};

}  // namespace commfuse

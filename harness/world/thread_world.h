// SPDX-License-Identifier: Apache-2.0
// A world whose ranks are threads of this process: no launcher, no MPI, and a debugger or a
// sanitizer sees all of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <stdexcept>

#include "harness/world/world.h"

namespace commfuse {

/// What run_thread_ranks throws: a rank's exception with its rank.
class RankError : public std::runtime_error {
 public:
  RankError(std::int32_t rank, std::exception_ptr cause);
  [[nodiscard]] std::int32_t rank() const { return rank_; }
  /// The exception itself, for whoever decides on an exit code by its type.
  [[nodiscard]] std::exception_ptr cause() const { return cause_; }

 private:
  std::int32_t rank_;
  std::exception_ptr cause_;
};

/// What World's calls throw on the ranks that another rank's exception lets out.
class WorldBroken : public std::runtime_error {
 public:
  WorldBroken() : std::runtime_error("another rank of this world failed") {}
};

/// Runs `body` on `ranks` threads and returns when all have ended. If one throws, every call into
/// the world throws WorldBroken on the others, and the first exception is thrown as RankError when
/// all have ended; ranks that wait for the failed one elsewhere than in the world get `patience` to
/// end, then the exception is printed and the process exits with 1. Throws UsageError for less than
/// one rank.
void run_thread_ranks(std::int32_t ranks, const std::function<void(World&)>& body,
                      std::chrono::nanoseconds patience = std::chrono::seconds(30));

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// Host threads of the ranks, of which one runs at a time: the one that holds the baton. Whoever
// holds it decides who is next, so that a run is as deterministic as the decisions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <semaphore>
#include <thread>
#include <vector>

namespace commfuse::fake {

class HostThreads {
 public:
  /// Starts one thread per rank, each of which runs `body(rank)` once it gets the baton. `body`
  /// must not throw, and must pass the baton on or end the run before it returns.
  HostThreads(std::int32_t ranks, const std::function<void(std::int32_t rank)>& body);

  /// Gives the baton to a rank, by somebody who does not want it back.
  void pass_to(std::int32_t rank);
  /// Gives the baton to another rank and waits until it comes back to `self`.
  void hand_over(std::int32_t self, std::int32_t rank);
  /// Waits until every body has returned.
  void join();

 private:
  std::vector<std::unique_ptr<std::binary_semaphore>> batons_;
  std::vector<std::jthread> threads_;
};

}  // namespace commfuse::fake

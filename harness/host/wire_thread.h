// SPDX-License-Identifier: Apache-2.0
// The thread of one rank that moves data beside the compute. Sleeps between orders.
#pragma once

#include <atomic>
#include <thread>

#include "harness/world/doorbell.h"

namespace commfuse {

/// What the thread is told to do.
class WireWork {
 public:
  virtual ~WireWork() = default;
  virtual void move_everything() noexcept = 0;
};

class WireThread {
 public:
  WireThread();
  ~WireThread();  // waits for the work in hand
  WireThread(const WireThread&) = delete;
  WireThread& operator=(const WireThread&) = delete;

  /// Starts `work`, which outlives the next wait_idle(). Requires the thread to be idle.
  void start(WireWork& work);
  void wait_idle();

 private:
  void loop();

  std::atomic<WireWork*> work_{nullptr};
  std::atomic<bool> ended_{false};
  Doorbell orders_;
  Doorbell idle_;
  std::thread thread_;  // last: the rest is ready when it starts
};

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// Recording device activities by CUPTI, for the whole process: one subscriber, one set of buffers,
// and one clock, which must be given before anything else is enabled.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "harness/cuda/activity.h"
#include "harness/cuda/cupti_library.h"

namespace commfuse {

class CuptiTracer {
 public:
  /// Subscribes, and gives CUPTI this process's monotonic clock. Before the first CUDA context.
  /// Null where that cannot be had; then `reason` is one line with the remedy. Subscribed until the
  /// process ends.
  static std::unique_ptr<CuptiTracer> start(const CuptiLibrary& cupti, std::string& reason);

  /// Between these, device activities are recorded. An empty text, or why nothing is.
  std::string enable();
  void disable();
  /// Makes log() what was recorded since the last call. After the devices were synchronised and
  /// outside of anything timed: records of what still runs would be lost. By one thread, while no
  /// other one reads the log.
  void collect();
  [[nodiscard]] const ActivityLog& log() const { return log_; }

  /// Ids nest, per thread.
  void push_id(std::uint64_t id);
  void pop_id();

  /// By how much times of device activities may be off, as bracketed at the start, in ns.
  [[nodiscard]] std::int64_t uncertainty_ns() const { return uncertainty_ns_; }

 private:
  explicit CuptiTracer(const CuptiLibrary& cupti) : cupti_(cupti) {}

  std::string subscribe();
  std::string measure_clock();
  std::string complaint(const char* call, CUptiResult result) const;

  CuptiLibrary cupti_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::int64_t uncertainty_ns_ = 0;
  ActivityLog log_;
};

}  // namespace commfuse

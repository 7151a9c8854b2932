// SPDX-License-Identifier: Apache-2.0
// Recording device activities by CUPTI, for the whole process: one subscriber, one set of buffers,
// and one clock, which must be given before anything else is enabled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "harness/cuda/activity.h"
#include "harness/cuda/cupti_library.h"

namespace commfuse {

class CuptiTracer {
 public:
  /// Subscribes, and gives CUPTI this process's monotonic clock. Before the first CUDA context.
  /// Null where that cannot be had; then `reason` is one line with the remedy. Never destroyed:
  /// CUPTI may call back until the process ends. One at a time.
  static CuptiTracer* start(const CuptiLibrary& cupti, std::string& reason);

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
  static constexpr std::size_t kBufferBytes = std::size_t{8} << 20;
  struct FreeBuffer {
    void operator()(std::byte* buffer) const;
  };
  using Buffer = std::unique_ptr<std::byte, FreeBuffer>;
  struct Filled {
    Buffer buffer;
    std::size_t valid = 0;
  };

  explicit CuptiTracer(const CuptiLibrary& cupti) : cupti_(cupti) {}
  static Buffer make_buffer();
  static CuptiTracer*& current();
  static void CUPTIAPI buffer_requested(std::uint8_t** buffer, std::size_t* size,
                                        std::size_t* max_records);
  static void CUPTIAPI buffer_completed(CUcontext context, std::uint32_t stream,
                                        std::uint8_t* buffer, std::size_t size, std::size_t valid);

  std::string subscribe();
  std::string measure_clock();
  std::string complaint(const char* call, CUptiResult result) const;

  CuptiLibrary cupti_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::int64_t uncertainty_ns_ = 0;
  ActivityLog log_;
  std::mutex mutex_;  // guards what the callbacks touch; never held across a call of CUPTI
  std::vector<Buffer> spare_;
  std::vector<Filled> filled_;
};

}  // namespace commfuse

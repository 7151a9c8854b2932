// SPDX-License-Identifier: Apache-2.0
// What the host calls of the fake libraries launched: each notes the operations of the machine that
// a profiler would record. Stream waits, events and values are not noted: they leave no record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "tests/fakecuda/operation.h"

namespace commfuse::fake {

enum class LaunchKind : std::uint8_t {
  kernel,
  copy_within_device,
  copy_with_host,
  peer_copy,
  memset
};

struct LaunchNote {
  OpId op = 0;
  LaunchKind kind = LaunchKind::kernel;
  std::string name;       // of a kernel
  std::size_t bytes = 0;  // of copies and memsets
  /// Where the library runs it in a stream of its own: the stream that the caller gave.
  std::optional<StreamId> stream;
  /// Launched by the driver's API, as NCCL does, not by the runtime's.
  bool by_driver = false;
};

/// Of one run at a time: from its construction to its destruction it is the current one.
class LaunchLog {
 public:
  /// `listener` is told of every launch, by the host thread that makes it.
  explicit LaunchLog(std::function<void(const LaunchNote&)> listener)
      : listener_(std::move(listener)) {
    slot() = this;
  }
  ~LaunchLog() { slot() = nullptr; }
  LaunchLog(const LaunchLog&) = delete;
  LaunchLog& operator=(const LaunchLog&) = delete;

  /// Null: nobody listens.
  static LaunchLog* current() { return slot(); }
  void note(const LaunchNote& launch) const { listener_(launch); }

 private:
  static LaunchLog*& slot() {
    static LaunchLog* log = nullptr;
    return log;
  }
  std::function<void(const LaunchNote&)> listener_;
};

/// For a fake library, right after it enqueued the operation.
inline void note_launch(const LaunchNote& launch) {
  if (const LaunchLog* log = LaunchLog::current()) log->note(launch);
}
inline void note_launch(OpId op, LaunchKind kind, std::string name, std::size_t bytes) {
  note_launch(LaunchNote{op, kind, std::move(name), bytes, {}, false});
}

}  // namespace commfuse::fake

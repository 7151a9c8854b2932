// SPDX-License-Identifier: Apache-2.0
// What a device did, as its profiling library recorded it. Plain values, so that what is concluded
// from them needs neither the library nor a device.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace commfuse {

enum class ActivityKind : std::uint8_t { kernel, copy, peer_copy, memset };

/// Times in ns of the host's clock that the library was given.
struct Activity {
  ActivityKind kind = ActivityKind::kernel;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::uint32_t device = 0;
  std::uint32_t stream = 0;
  std::uint32_t correlation = 0;  // of the call that launched it
  std::string name;               // of a kernel, demangled
  std::int64_t bytes = 0;         // of copies and memsets
  bool within_device = false;     // a copy from device memory to memory of the same device
  bool copy_engine = false;       // the channel proves that no SM took part
};

/// The host call that launched something.
struct LaunchCall {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

/// Everything recorded of a stretch of time. Records without a time that can be believed are
/// counted and left out.
struct ActivityLog {
  std::vector<Activity> activities;
  std::map<std::uint32_t, LaunchCall> launches;     // by correlation
  std::map<std::uint32_t, std::uint64_t> external;  // by correlation: the caller's own id
  std::int64_t without_time = 0;                    // begin and end are 0
  std::int64_t reversed = 0;                        // the end lies before the begin
  std::int64_t unreadable = 0;              // the library could not decode the rest of a buffer
  std::optional<std::int64_t> dropped = 0;  // nullopt: the count could not be read
};

}  // namespace commfuse

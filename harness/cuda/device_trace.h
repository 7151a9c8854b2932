// SPDX-License-Identifier: Apache-2.0
// What a traced iteration did: recorded activities joined to plan operations by the id that the
// executor pushed around each, and whether the trace counts at all.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/cuda/activity.h"

namespace commfuse {

enum class WorkKind : std::uint8_t { compute, copy, transfer, sentinel };

/// What one plan operation (or sentinel kernel) must have left in a complete trace.
struct ExpectedWork {
  std::uint64_t id = 0;  // as pushed around its launch
  WorkKind kind = WorkKind::compute;
  std::int32_t fewest = 1;  // kernels and copies
  std::int32_t most = 1;    // cuBLASLt may use several kernels; kAnyNumber where nobody knows
};
constexpr std::int32_t kAnyNumber = 1 << 30;

/// An activity and the operation behind it. Activities without one are `unattributed`.
struct DeviceWork {
  std::uint64_t id = 0;
  WorkKind kind = WorkKind::compute;
  Activity activity;
};

struct DeviceTrace {
  std::string reason;  // why it does not count, in one line; empty if it does
  std::vector<DeviceWork>
      work;  // without sentinels and memsets; empty where the trace does not count
  std::vector<Activity> unattributed;
};

/// Joins by correlation and applies the six rules of a trace that counts: no dropped records, no
/// impossible times, every sentinel there, the expected number of activities for each operation, no
/// overlap within a stream (but among the copies of one transfer whose number is not known: a batch
/// of copies has no order), and none that began before its launch by more than `uncertainty_ns`. A
/// kernel with NCCL's name under an operation that transfers nothing is a contradiction too.
DeviceTrace examine(const ActivityLog& log, std::span<const ExpectedWork> expected,
                    std::int64_t uncertainty_ns);

}  // namespace commfuse

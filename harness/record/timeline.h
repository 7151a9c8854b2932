// SPDX-License-Identifier: Apache-2.0
// What every executor yields: spans of one iteration of one rank. All metrics are computed from
// these, see docs/metrics.md.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace commfuse {

enum class SpanKind : std::uint8_t {
  model,        // gemm, attention
  elementwise,  // activation, norm, their gradients, residual: the same in every schedule
  overhead,     // accumulate, copy: the schedule's own
  transfer,     // one message, as its receiver or sender sees it
  collective,
};
std::string_view name_of(SpanKind kind);

/// Times are nanoseconds of one monotonic clock per rank (wall), or simulated.
struct Span {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t cpu_ns = -1;   // thread CPU time between begin and end; -1 where it is not known
  std::uint32_t op = 0;       // index in the plan
  std::int32_t message = -1;  // index in the plan's messages, -1 for a whole op
  std::uint8_t lane = 0;      // 0 is the compute lane
  SpanKind kind = SpanKind::model;
  bool send = false;  // transfers only
  std::int64_t bytes = 0;
  std::int64_t flops = 0;
};

/// The window runs from the common start to the end of the rank's last op.
struct Timeline {
  std::int32_t rank = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::vector<Span> spans;  // any order
};

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/trace_timeline.h"

#include <algorithm>
#include <vector>

#include "harness/cuda/op_marks.h"

namespace commfuse {

void lay_out(const DeviceTrace& trace, const Program& program, Timeline& timeline) {
  const std::uint64_t first = event_trace_id(program.plan().rank, 0);
  std::vector<bool> seen(timeline.spans.size(), false);
  for (const DeviceWork& work : trace.work) {
    const std::uint32_t place = program.event(static_cast<EventId>(work.id - first)).span;
    Span& span = timeline.spans[place];
    const Activity& activity = work.activity;
    span.begin_ns = seen[place] ? std::min(span.begin_ns, activity.begin_ns) : activity.begin_ns;
    span.end_ns = seen[place] ? std::max(span.end_ns, activity.end_ns) : activity.end_ns;
    seen[place] = true;
    timeline.end_ns = std::max(timeline.end_ns, activity.end_ns);
  }
}

bool all_by_copy_engine(const DeviceTrace& trace) {
  std::int64_t copies = 0;
  for (const DeviceWork& work : trace.work) {
    const bool copy =
        work.activity.kind == ActivityKind::copy || work.activity.kind == ActivityKind::peer_copy;
    if (work.kind != WorkKind::transfer || !copy) continue;
    if (!work.activity.copy_engine) return false;
    ++copies;
  }
  return copies > 0;
}

}  // namespace commfuse

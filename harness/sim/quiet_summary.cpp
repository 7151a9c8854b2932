// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/quiet_summary.h"

#include <stdexcept>

#include "harness/plan_spans.h"
#include "harness/record/timeline.h"

namespace commfuse {

IterationSummary quiet_summary(const Plan& plan, std::span<const Picoseconds> op_times) {
  Timeline timeline;
  timeline.rank = plan.rank;
  Picoseconds now = 0;
  for (Span& span : untimed_spans(plan)) {
    if (span.kind == SpanKind::transfer || span.kind == SpanKind::collective) continue;
    if (span.lane != index_of(Lane::compute)) {
      throw std::invalid_argument("a compute op is not on the compute lane");
    }
    span.begin_ns = nanoseconds(now);
    now += op_times[span.op];
    require_in_time(now);
    span.end_ns = nanoseconds(now);
    timeline.spans.push_back(span);
  }
  timeline.end_ns = nanoseconds(now);
  return summarize(timeline);
}

}  // namespace commfuse

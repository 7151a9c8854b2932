// SPDX-License-Identifier: Apache-2.0
// What can be waited for in a plan, as spans that only lack their times.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/record/timeline.h"
#include "impls/plan.h"

namespace commfuse {

/// One span for every op that is no exchange, in plan order, then one for every message.
std::vector<Span> untimed_spans(const Plan& plan);

/// Whether it is of an op that computes.
inline bool computes(const Span& span) {
  return span.kind != SpanKind::transfer && span.kind != SpanKind::collective;
}

/// How long an op took that computes, whatever else its core did: its thread CPU time where that is
/// known, else from begin to end.
inline std::int64_t compute_ns(const Span& span) {
  return span.cpu_ns >= 0 ? span.cpu_ns : span.end_ns - span.begin_ns;
}

}  // namespace commfuse

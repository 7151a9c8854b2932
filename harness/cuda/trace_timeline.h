// SPDX-License-Identifier: Apache-2.0
// A traced iteration as a timeline, with what only a trace can tell.
#pragma once

#include <cstdint>
#include <string>

#include "harness/cuda/device_trace.h"
#include "harness/program.h"
#include "harness/record/timeline.h"

namespace commfuse {

/// Fills the spans of events from the first begin to the last end of their activities. Receives of
/// a rank that others push to leave no record here: their spans stay empty. `timeline` has the
/// program's spans and its window, which ends once all has arrived; should an activity end after
/// that by its clock, then there.
void lay_out(const DeviceTrace& trace, const Program& program, Timeline& timeline);

/// Whether every copy of a transfer ran on a copy engine; false if there were none.
bool all_by_copy_engine(const DeviceTrace& trace);

}  // namespace commfuse

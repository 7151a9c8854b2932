// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace commfuse {

/// Before anything is opened or printed: a file that is opened must not become standard output or
/// error by number, and one at its limit is an error of write(), no signal.
void begin_streams();

/// Results that did not reach standard output are an error, whatever else went well: the exit code
/// to end with.
int end_streams(int code);

}  // namespace commfuse

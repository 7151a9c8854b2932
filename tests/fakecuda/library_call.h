// SPDX-License-Identifier: Apache-2.0
// The frame around each function of a fake library: what it finds ends the run, and after the end
// of the run it returns the error that the library sticks to.
#pragma once

#include "tests/fakecuda/machine.h"

namespace commfuse::fake {

/// The result of `body`, or `sticky` once the run has ended. Findings never reach the caller, who
/// might catch them.
template <class Result, class Body>
Result library_call(Result sticky, Body body) {
  try {
    try {
      return body();
    } catch (const Finding& finding) {
      Machine::current().end(finding);
    }
  } catch (const Stopped&) {
    return sticky;
  }
}

}  // namespace commfuse::fake

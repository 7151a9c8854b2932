// SPDX-License-Identifier: Apache-2.0
// The frame around each function of the fake NCCL, and the checks that many of them share.
#pragma once

#include <nccl.h>

#include "tests/fakecuda/library_call.h"

namespace commfuse::fake {

/// Costs host time. After the end of the run: what NCCL returns once the device has failed.
template <class Body>
ncclResult_t nccl_call(Body body) {
  return library_call(ncclUnhandledCudaError, [&] {
    Machine::current().advance_host(1000);
    return body();
  });
}

/// ncclSuccess for a communicator that the calling rank may use. Throws Finding for one that was
/// destroyed, or belongs to another rank's host thread.
ncclResult_t check(const ncclComm* comm);

}  // namespace commfuse::fake

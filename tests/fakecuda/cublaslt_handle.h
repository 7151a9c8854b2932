// SPDX-License-Identifier: Apache-2.0
// The frame around the functions of the fake cuBLASLt that need a handle.
#pragma once

#include <cublasLt.h>

#include "tests/fakecuda/library_call.h"

namespace commfuse::fake {

/// Costs host time. After the end of the run: what cuBLASLt returns once the device has failed.
template <class Body>
cublasStatus_t cublaslt_call(Body body) {
  return library_call(CUBLAS_STATUS_EXECUTION_FAILED, [&] {
    Machine::current().advance_host(2000);
    return body();
  });
}

/// CUBLAS_STATUS_NOT_INITIALIZED for null. Throws Finding for a handle that was destroyed.
cublasStatus_t check(cublasLtHandle_t handle);

}  // namespace commfuse::fake

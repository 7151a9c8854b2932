// SPDX-License-Identifier: Apache-2.0
// The softmax of attention: scores in, probabilities out.
#pragma once

#include <cuda_runtime_api.h>

#include "harness/cuda/softmax_rows.h"

namespace commfuse {

/// Masked columns of the parts get probability 0, those outside of the parts are left alone. A
/// weight that underflows is 0, so one-hot scores give the row of V exactly. `rows` and `heads` are
/// positive.
void launch_softmax(const SoftmaxRows& rows, cudaStream_t stream);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// The softmax of attention and its gradient at once: scores and slopes of the probabilities in,
// probabilities and slopes of the scores out.
#pragma once

#include <cuda_runtime_api.h>

#include "harness/cuda/softmax_rows.h"

namespace commfuse {

/// Masked columns of the parts get probability and slope 0, those outside of the parts are left
/// alone. `rows` and `heads` are positive.
void launch_softmax_gradient(const SoftmaxGradientRows& rows, cudaStream_t stream);

}  // namespace commfuse

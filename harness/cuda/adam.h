// SPDX-License-Identifier: Apache-2.0
// A step of Adam on the device: one kernel behind a plain function, as in launches.h.
#pragma once

#include <cuda_runtime_api.h>

#include "harness/cuda/adam_views.h"

namespace commfuse {

/// Of dtypes that unsupported_adam() allows. What is written may be what it replaces.
void launch_adam(const AdamViews& views, cudaStream_t stream);

}  // namespace commfuse

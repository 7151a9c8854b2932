// SPDX-License-Identifier: Apache-2.0
// Values between host and device: for inputs, checks and nothing that is timed.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "harness/cuda/device_storage.h"

namespace commfuse {

/// Float is rounded to the tensor's dtype; `packed` has view.elements() values. Both return when
/// the values have arrived.
void write_values(const DeviceStorage& storage, const View& view, std::span<const float> packed,
                  cudaStream_t stream);
void read_values(const DeviceStorage& storage, const View& view, std::span<float> packed,
                 cudaStream_t stream);

}  // namespace commfuse

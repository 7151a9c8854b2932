// SPDX-License-Identifier: Apache-2.0
// Our kernels behind plain functions: the only things that a .cu file defines for the rest. Each
// enqueues exactly one kernel, or none where there is nothing to write, and checks that the launch
// was accepted.
#pragma once

#include <cuda_runtime_api.h>

#include "harness/cuda/device_view.h"
#include "suite/compute.h"

namespace commfuse {

/// The packed form of `source` becomes that of `target`; equal element counts and dtypes.
void launch_copy(const DeviceView& target, const DeviceView& source, cudaStream_t stream);
/// d = a + the sum over the strips of `terms`, each of d's packed shape, in fp32, rounded once. One
/// dtype; d may be a.
void launch_accumulate(const DeviceView& d, const DeviceView& a, const DeviceView& terms,
                       cudaStream_t stream);
/// y = x + r in fp32, rounded once; views of one packed shape and dtype. y may be x or r.
void launch_residual(const DeviceView& y, const DeviceView& x, const DeviceView& r,
                     cudaStream_t stream);
/// x has y's packed shape, or twice its columns for swiglu, and y's dtype.
void launch_elementwise(const DeviceView& y, const DeviceView& x, Activation kind,
                        cudaStream_t stream);
/// target = source rounded to the target's dtype; a narrow and an fp32 view of equal packed shape.
void launch_round(const DeviceView& target, const DeviceView& source, cudaStream_t stream);
/// A kernel that does nothing, to be found in traces before and after a lane's work.
void launch_sentinel(cudaStream_t stream);

}  // namespace commfuse

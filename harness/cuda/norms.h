// SPDX-License-Identifier: Apache-2.0
// Kernels of norms and of gradients, behind plain functions as in launches.h: each enqueues exactly
// one kernel, or none where there is nothing to write. The views of a call have one dtype.
#pragma once

#include <cuda_runtime_api.h>

#include "harness/cuda/device_view.h"
#include "suite/compute.h"

namespace commfuse {

/// dx and x have dy's packed shape, or twice its columns for swiglu; dx may be x or dy.
void launch_activation_gradient(const DeviceView& dx, const DeviceView& dy, const DeviceView& x,
                                Activation kind, cudaStream_t stream);
/// y and x have one packed shape, gamma is a row of it; y may be x.
void launch_norm(const DeviceView& y, const DeviceView& x, const DeviceView& gamma,
                 cudaStream_t stream);
/// dx, dy and x have one packed shape, gamma is a row of it; dx may be x or dy.
void launch_norm_gradient(const DeviceView& dx, const DeviceView& dy, const DeviceView& x,
                          const DeviceView& gamma, cudaStream_t stream);

/// inverse[row] = 1 / rms of the packed row of x.
void launch_inverse_rms(float* inverse, const DeviceView& x, cudaStream_t stream);
/// For each group of `group_rows` packed rows, the last of which may have fewer, sums[group * cols
/// + col] = the sum over its rows of dy x inverse[row]. `sums` is 32-byte aligned.
void launch_gamma_sums(float* sums, const DeviceView& dy, const DeviceView& x, const float* inverse,
                       std::int32_t group_rows, cudaStream_t stream);
/// d, one row, = the sum over the groups, plus d where `adds`, rounded once.
void launch_gamma_total(const DeviceView& d, const float* sums, std::int32_t groups, bool adds,
                        cudaStream_t stream);

}  // namespace commfuse

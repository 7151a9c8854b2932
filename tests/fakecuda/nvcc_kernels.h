// SPDX-License-Identifier: Apache-2.0
// Kernels compiled by nvcc, behind plain functions as the backend has them.
#pragma once

#include <cuda_runtime_api.h>

namespace commfuse::fake {

/// A template: data[i] *= factor.
void launch_scale(float* data, long count, float factor, cudaStream_t stream);
/// In an unnamed namespace: to[i] = value.
void launch_fill_unnamed(int* to, int count, int value, cudaStream_t stream);
/// A grid that no device takes.
void launch_too_large(float* data, cudaStream_t stream);

}  // namespace commfuse::fake

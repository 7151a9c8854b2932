// SPDX-License-Identifier: Apache-2.0
// Kernels of the fake runtime's own tests, registered by hand as nvcc's host code does it, so that
// they need no compiler for devices.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace commfuse::fake {

/// test::fill(int* to, int count, int value): has a twin.
[[nodiscard]] const void* fill_kernel();
/// test::add(int* to, const int* terms, int count): has a twin.
[[nodiscard]] const void* add_kernel();
/// test::forgotten(): has none.
[[nodiscard]] const void* forgotten_kernel();

cudaError_t launch_fill(int* to, int count, int value, cudaStream_t stream);
cudaError_t launch_add(int* to, const int* terms, int count, cudaStream_t stream);

}  // namespace commfuse::fake

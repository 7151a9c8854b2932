// SPDX-License-Identifier: Apache-2.0
// Reductions over the threads of a block that has one row.
#pragma once

#include <math_constants.h>

namespace commfuse {

constexpr int kRowThreads = 256;
constexpr int kLanesOfWarp = 32;
constexpr int kRowWarps = kRowThreads / kLanesOfWarp;

struct Largest {
  static __device__ float start() { return -CUDART_INF_F; }
  static __device__ float join(float a, float b) { return fmaxf(a, b); }
};
struct Sum {
  static __device__ float start() { return 0.0F; }
  static __device__ float join(float a, float b) { return a + b; }
};

/// Over a block of kRowThreads, always in the same order. Every thread gets the result.
template <class Operation>
__device__ float over_block(float value) {
  __shared__ float of_warp[kRowWarps];
  for (int step = kLanesOfWarp / 2; step > 0; step /= 2) {
    value = Operation::join(value, __shfl_xor_sync(~0U, value, step));
  }
  if (threadIdx.x % kLanesOfWarp == 0) of_warp[threadIdx.x / kLanesOfWarp] = value;
  __syncthreads();
  float result = Operation::start();
  for (const float each : of_warp) result = Operation::join(result, each);
  __syncthreads();  // before anyone writes the next one's
  return result;
}

}  // namespace commfuse

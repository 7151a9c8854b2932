// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/softmax.h"

#include <math_constants.h>

#include "harness/cuda/cuda_error.h"
#include "harness/cuda/device_rows.cuh"

namespace commfuse {
namespace {

constexpr int kThreads = 256;
constexpr int kLanes = 32;
constexpr int kWarps = kThreads / kLanes;

struct Largest {
  static __device__ float start() { return -CUDART_INF_F; }
  static __device__ float join(float a, float b) { return fmaxf(a, b); }
};
struct Sum {
  static __device__ float start() { return 0.0F; }
  static __device__ float join(float a, float b) { return a + b; }
};

/// Over the block, always in the same order. Every thread gets the result.
template <class Operation>
__device__ float over_block(float value) {
  __shared__ float of_warp[kWarps];
  for (int step = kLanes / 2; step > 0; step /= 2) {
    value = Operation::join(value, __shfl_xor_sync(~0U, value, step));
  }
  if (threadIdx.x % kLanes == 0) of_warp[threadIdx.x / kLanes] = value;
  __syncthreads();
  float result = Operation::start();
  for (const float each : of_warp) result = Operation::join(result, each);
  __syncthreads();  // before anyone writes the next one's
  return result;
}

/// Calls act(column, visible) for the thread's share of the row's columns.
template <class Act>
__device__ void for_columns(const ScorePart (&parts)[2], std::int32_t row, Act act) {
  for (const ScorePart& part : parts) {
    const std::int32_t begin = part.begin + row * part.begin_step;
    const std::int32_t end = part.end + row * part.end_step;
    for (auto i = static_cast<std::int32_t>(threadIdx.x); i < part.count; i += kThreads) {
      act(part.column + i, begin <= i && i < end);
    }
  }
}

}  // namespace

/// A block has one row of one head: rows in x, heads in y. The second and third pass find the row
/// in the cache.
template <class T>
__global__ void softmax_rows(SoftmaxRows all) {
  const auto row = static_cast<std::int32_t>(blockIdx.x);
  const std::int64_t offset = (std::int64_t{blockIdx.y} * all.rows + row) * all.pitch;
  const float* scores = all.scores + offset;
  T* probabilities = static_cast<T*>(all.probabilities) + offset;
  float largest = Largest::start();
  for_columns(all.parts, row, [&](std::int32_t column, bool visible) {
    if (visible) largest = fmaxf(largest, scores[column]);
  });
  largest = over_block<Largest>(largest);
  float sum = 0.0F;
  for_columns(all.parts, row, [&](std::int32_t column, bool visible) {
    if (visible) sum += expf(scores[column] - largest);
  });
  sum = over_block<Sum>(sum);
  for_columns(all.parts, row, [&](std::int32_t column, bool visible) {
    const float value = visible ? expf(scores[column] - largest) / sum : 0.0F;
    probabilities[column] = static_cast<T>(value);
  });
}

void launch_softmax(const SoftmaxRows& rows, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(rows.rows), static_cast<unsigned>(rows.heads));
  with_element_type(rows.dtype, [&](auto element) {
    softmax_rows<decltype(element)><<<grid, kThreads, 0, stream>>>(rows);
  });
  CFB_CUDA(cudaGetLastError());
}

}  // namespace commfuse

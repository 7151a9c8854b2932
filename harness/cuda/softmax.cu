// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/softmax.h"

#include "harness/cuda/block_reduction.cuh"
#include "harness/cuda/cuda_error.h"
#include "harness/cuda/device_rows.cuh"
#include "harness/cuda/softmax_columns.cuh"

namespace commfuse {
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
    softmax_rows<decltype(element)><<<grid, kRowThreads, 0, stream>>>(rows);
  });
  CFB_CUDA(cudaGetLastError());
}

}  // namespace commfuse

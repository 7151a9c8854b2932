// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/softmax_gradient.h"

#include "harness/cuda/block_reduction.cuh"
#include "harness/cuda/cuda_error.h"
#include "harness/cuda/device_rows.cuh"
#include "harness/cuda/softmax_columns.cuh"

namespace commfuse {

/// A block has one row of one head: rows in x, heads in y. Every thread reads and writes the same
/// columns in every pass, so results may replace what they are made of.
template <class T>
__global__ void softmax_gradient_rows(SoftmaxGradientRows all) {
  const SoftmaxRows& of = all.softmax;
  const auto row = static_cast<std::int32_t>(blockIdx.x);
  const std::int64_t offset = (std::int64_t{blockIdx.y} * of.rows + row) * of.pitch;
  const float* scores = of.scores + offset;
  const float* slopes = all.slopes + offset;
  T* probabilities = static_cast<T*>(of.probabilities) + offset;
  T* results = static_cast<T*>(all.results) + offset;
  float largest = Largest::start();
  for_columns(of.parts, row, [&](std::int32_t column, bool visible) {
    if (visible) largest = fmaxf(largest, scores[column]);
  });
  largest = over_block<Largest>(largest);
  float sum = 0.0F;
  float along = 0.0F;
  for_columns(of.parts, row, [&](std::int32_t column, bool visible) {
    if (!visible) return;
    const float weight = expf(scores[column] - largest);
    sum += weight;
    along += weight * slopes[column];
  });
  sum = over_block<Sum>(sum);
  along = over_block<Sum>(along) / sum;
  for_columns(of.parts, row, [&](std::int32_t column, bool visible) {
    const float weight = visible ? expf(scores[column] - largest) / sum : 0.0F;
    const float slope = visible ? weight * (slopes[column] - along) * all.scale : 0.0F;
    probabilities[column] = static_cast<T>(weight);
    results[column] = static_cast<T>(slope);
  });
}

void launch_softmax_gradient(const SoftmaxGradientRows& rows, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(rows.softmax.rows),
                  static_cast<unsigned>(rows.softmax.heads));
  with_element_type(rows.softmax.dtype, [&](auto element) {
    softmax_gradient_rows<decltype(element)><<<grid, kRowThreads, 0, stream>>>(rows);
  });
  CFB_CUDA(cudaGetLastError());
}

}  // namespace commfuse

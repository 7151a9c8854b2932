// SPDX-License-Identifier: Apache-2.0
// Columns of a row of scores, shared by the threads of its block.
#pragma once

#include "harness/cuda/block_reduction.cuh"
#include "harness/cuda/softmax_rows.h"

namespace commfuse {

/// Calls act(column, visible) for the thread's share of the row's columns, always the same ones.
template <class Act>
__device__ void for_columns(const ScorePart (&parts)[2], std::int32_t row, Act act) {
  for (const ScorePart& part : parts) {
    const std::int32_t begin = part.begin + row * part.begin_step;
    const std::int32_t end = part.end + row * part.end_step;
    for (auto i = static_cast<std::int32_t>(threadIdx.x); i < part.count; i += kRowThreads) {
      act(part.column + i, begin <= i && i < end);
    }
  }
}

}  // namespace commfuse

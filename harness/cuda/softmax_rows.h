// SPDX-License-Identifier: Apache-2.0
// What the softmax kernels are told. Plain C++.
#pragma once

#include <cstdint>

#include "suite/tensor.h"

namespace commfuse {

/// Columns [column, column + count) of the scores, of which row i has its keys in [begin + i *
/// begin_step, end + i * end_step), counted from `column`; the others are masked.
struct ScorePart {
  std::int32_t column = 0;
  std::int32_t count = 0;
  std::int32_t begin = 0;
  std::int32_t begin_step = 0;
  std::int32_t end = 0;
  std::int32_t end_step = 0;
};

/// `heads` matrices of fp32 scores, each `rows` rows `pitch` elements apart, the next head's
/// `rows` * `pitch` further on. Probabilities lie likewise, in their own dtype. Every row has at
/// least one key.
struct SoftmaxRows {
  const float* scores = nullptr;
  void* probabilities = nullptr;  // may be the scores where they are fp32
  std::int64_t pitch = 0;
  std::int32_t rows = 0;
  std::int32_t heads = 0;
  ScorePart parts[2];
  DType dtype = DType::f32;  // of the probabilities
};

/// Beside scores, slopes of the probabilities, which lie where the scores lie in their matrices.
/// Results, slopes of the scores times `scale`, lie as the probabilities do, in their dtype.
struct SoftmaxGradientRows {
  SoftmaxRows softmax;
  const float* slopes = nullptr;
  void* results = nullptr;  // may be the slopes where they are fp32
  float scale = 1.0F;
};

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/host/score_rows.h"

#include <limits>

#include "harness/host/simd.h"
#include "harness/host/vector_math.h"

namespace commfuse {

COMMFUSE_SIMD float exponentiate(float* scores, std::int64_t count) {
  float largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < count; ++i) largest = scores[i] > largest ? scores[i] : largest;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) {
    scores[i] = vector_exp(scores[i] - largest);
    sum += scores[i];
  }
  return sum;
}

COMMFUSE_SIMD void divide(float* values, float divisor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] /= divisor;
}

COMMFUSE_SIMD void softmax_gradient(const float* probabilities, float* slopes, float scale,
                                    std::int64_t count) {
  float along = 0;
#pragma omp simd reduction(+ : along)
  for (std::int64_t i = 0; i < count; ++i) along += probabilities[i] * slopes[i];
  for (std::int64_t i = 0; i < count; ++i) {
    slopes[i] = probabilities[i] * (slopes[i] - along) * scale;
  }
}

}  // namespace commfuse

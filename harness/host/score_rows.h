// SPDX-License-Identifier: Apache-2.0
// What attention and its gradient do to one row of scores on the host.
#pragma once

#include <cstdint>

namespace commfuse {

/// Replaces a row of scores by e^(score - largest), those that are minus infinity by 0, and returns
/// their sum.
float exponentiate(float* scores, std::int64_t count);

/// values[i] /= divisor
void divide(float* values, float divisor, std::int64_t count);

/// Replaces slopes of probabilities by slopes of scores: slope = probability * (slope - the sum of
/// probability * slope) * scale.
void softmax_gradient(const float* probabilities, float* slopes, float scale, std::int64_t count);

}  // namespace commfuse

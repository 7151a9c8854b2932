// SPDX-License-Identifier: Apache-2.0
// What a step of Adam (compute.h) multiplies with, and in fp32 as executors hold it: the constants
// of the step, with the corrections of bias in them.
#pragma once

#include <cstdint>

#include "suite/compute.h"

namespace commfuse {

/// 1 - beta^t: what a mean that began at zero is divided by.
constexpr double adam_correction(double beta) {
  double power = 1;
  for (std::int32_t step = 0; step < kAdamStep; ++step) power *= beta;
  return 1 - power;
}

/// alpha / (1 - beta1^t), of M' / (sqrt(V^) + epsilon).
inline constexpr double kAdamStepSize = kAdamRate / adam_correction(kAdamBeta1);
/// V^ / V'.
inline constexpr double kAdamUnbiased = 1 / adam_correction(kAdamBeta2);
/// Of W.
inline constexpr double kAdamKept = 1 - kAdamRate * kAdamDecay;

inline constexpr auto kAdamBeta1F = static_cast<float>(kAdamBeta1);
inline constexpr auto kAdamRest1F = static_cast<float>(1 - kAdamBeta1);
inline constexpr auto kAdamBeta2F = static_cast<float>(kAdamBeta2);
inline constexpr auto kAdamRest2F = static_cast<float>(1 - kAdamBeta2);
inline constexpr auto kAdamStepSizeF = static_cast<float>(kAdamStepSize);
inline constexpr auto kAdamUnbiasedF = static_cast<float>(kAdamUnbiased);
inline constexpr auto kAdamKeptF = static_cast<float>(kAdamKept);
inline constexpr auto kAdamEpsilonF = static_cast<float>(kAdamEpsilon);

}  // namespace commfuse

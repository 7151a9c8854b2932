// SPDX-License-Identifier: Apache-2.0
// exp and the normal distribution without branches or calls, so that loops over them vectorise.
// NaN gives NaN everywhere: poison must not vanish in an activation.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "harness/host/simd.h"

namespace commfuse {

/// e^(x + tail) for |tail| < 0.1, the part of the argument that x is too coarse for. Relative error
/// below 1.7e-7; results below 1.2e-38 (the least normal float) are 0, which keeps softmax free of
/// slow subnormals, and above the largest float infinity.
COMMFUSE_INLINE float vector_exp(float x, float tail = 0.0F) {
  constexpr float kLog2e = 1.44269504F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kLowest = -87.3365F;
  constexpr float kHighest = 88.7228F;
  const float shifted = (x + tail) * kLog2e + kRound;
  const float n = shifted - kRound;
  const float r = x - n * kLn2High - n * kLn2Low + tail;
  // Cephes' polynomial for e^r on |r| <= ln(2) / 2.
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  // Times 2^n: the low bits of `shifted` are n, added to p's exponent.
  float y = std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) +
                                 (std::bit_cast<std::uint32_t>(shifted) << 23U));
  y = x > kHighest ? std::numeric_limits<float>::infinity() : y;
  y = x < kLowest ? 0.0F : y;
  return x != x ? x : y;
}

/// |x|, or 15 where it is larger: beyond 13, e^(-x^2 / 2) is 0 in float anyway.
COMMFUSE_INLINE float magnitude_to_15(float x) {
  const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x) & 0x7fffffffU;
  const float whole = std::bit_cast<float>(magnitude);
  return whole > 15.0F ? 15.0F : whole;
}

/// e^(-x^2 / 2), to 2.5e-7 of its value where float is normal.
COMMFUSE_INLINE float half_square_exp(float x) {
  const float a = magnitude_to_15(x);
  // a^2 / 2 in two parts: the square of twelve bits is exact, and the rest corrects it.
  const float high = std::bit_cast<float>(std::bit_cast<std::uint32_t>(a) & 0xfffff000U);
  return vector_exp(-0.5F * high * high, -0.5F * (a - high) * (a + high));
}

/// The share of a standard normal distribution beyond |x|: 1 - Phi(|x|), to 5e-7 of its value.
COMMFUSE_INLINE float normal_tail(float x) {
  const float a = magnitude_to_15(x);
  const float density = half_square_exp(x);
  // Chebyshev interpolation of tail / density * (1 + a / 2) on [0, 14.5], error 3e-8.
  const float u = (a - 4.0F) / (a + 4.0F);
  float p = 2.60757584e-4F;
  p = p * u + 1.31316628e-4F;
  p = p * u - 2.25869547e-3F;
  p = p * u + 4.73283516e-3F;
  p = p * u - 6.64327808e-4F;
  p = p * u - 2.15545612e-2F;
  p = p * u + 6.91893761e-2F;
  p = p * u - 1.33550573e-1F;
  p = p * u + 2.83231923e-1F;
  return density * p / (1.0F + 0.5F * a);
}

}  // namespace commfuse

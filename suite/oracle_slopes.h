// SPDX-License-Identifier: Apache-2.0
// Slopes of the smooth activations, and how far they reach.
#pragma once

#include <cmath>
#include <numbers>

namespace commfuse {

/// |gelu''| <= 2 phi(0) = 0.798 and |silu''| <= 0.5, |gelu'| and |silu'| <= 1.13, everywhere.
constexpr double kGeluBend = 0.8;
constexpr double kSiluBend = 0.5;
constexpr double kLargestSlope = 1.13;

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double silu_slope(double x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); }
inline double gelu_slope(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2) +
         x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
}

}  // namespace commfuse

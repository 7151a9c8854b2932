// SPDX-License-Identifier: Apache-2.0
// What a dtype makes of a number, by arithmetic in float64: the reference for everything that
// converts by moving bits.
#pragma once

#include <algorithm>
#include <cmath>

#include "suite/tensor.h"

namespace commfuse {

/// A binary floating-point format.
struct NumberLimits {
  int bits = 0;            // of the significand, the hidden one included
  int least_exponent = 0;  // of a normal number
  double largest = 0;
};

constexpr NumberLimits limits_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      break;
    case DType::bf16:
      return {8, -126, 0x1.fep127};
    case DType::f16:
      return {11, -14, 65504};
  }
  return {24, -126, 0x1.fffffep127};
}

/// To the nearest number of the dtype, of two to the even one; beyond its range infinity.
inline double rounded_to(DType dtype, double value) {
  if (!std::isfinite(value) || value == 0) return value;
  const auto [bits, least_exponent, largest] = limits_of(dtype);
  const double step = std::ldexp(1.0, std::max(std::ilogb(value), least_exponent) - (bits - 1));
  const double rounded = std::nearbyint(value / step) * step;  // of two to the even one
  return std::abs(rounded) <= largest ? rounded : std::copysign(HUGE_VAL, value);
}

}  // namespace commfuse

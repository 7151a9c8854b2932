// SPDX-License-Identifier: Apache-2.0
// Activations and their slopes by their definitions.
#pragma once

#include <cmath>
#include <numbers>
#include <stdexcept>

#include "suite/compute.h"

namespace commfuse {

/// f(x), of swiglu times `up`.
inline double activate(Activation kind, double x, double up) {
  switch (kind) {
    case Activation::relu:
      return x < 0 ? 0.0 : x;  // keeps NaN
    case Activation::gelu:
      return x * 0.5 * (1.0 + std::erf(x / std::numbers::sqrt2));
    case Activation::swiglu:
      return x / (1.0 + std::exp(-x)) * up;
  }
  throw std::invalid_argument("unknown activation");
}

/// f'(x), of swiglu silu'(x).
inline double slope(Activation kind, double x) {
  const double sigmoid = 1.0 / (1.0 + std::exp(-x));
  switch (kind) {
    case Activation::relu:
      return x > 0 ? 1.0 : x * 0;  // keeps NaN
    case Activation::gelu:
      return 0.5 * (1.0 + std::erf(x / std::numbers::sqrt2)) +
             x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    case Activation::swiglu:
      return sigmoid * (1.0 + x * (1.0 - sigmoid));
  }
  throw std::invalid_argument("unknown activation");
}

}  // namespace commfuse

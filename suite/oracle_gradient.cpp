// SPDX-License-Identifier: Apache-2.0
// Gradients of activations.
#include <algorithm>
#include <cmath>

#include "suite/oracle_linear.h"
#include "suite/oracle_number.h"
#include "suite/oracle_slopes.h"

namespace commfuse {
namespace {

/// f(x), whose slope is at most `slope`; what fp32 adds is relative to `size`.
Number through(double value, double slope, double size, const Number& x) {
  const double own = kFunctionError * size;
  return {value, {slope * x.off.error + own, slope * x.off.scale + own}};
}

/// dy where x > 0, else 0: exact but for what dy and the sign of x bring along.
Number relu_gradient(const Number& dy, const Number& x) {
  const Number result{x.value > 0 ? dy.value : 0, dy.off};
  if (x.value > x.off.error) return result;
  if (x.value <= -x.off.error) return {0, {}};
  const double either = std::abs(dy.value) + dy.off.error;
  return {result.value, {either, either}};
}

void copy_columns(const Rows& from, Rows& to, std::int32_t first) {
  for (std::int32_t row = 0; row < from.count; ++row) {
    for (std::int32_t col = 0; col < from.cols; ++col) {
      const std::size_t source = from.at(row, col);
      const std::size_t target = to.at(row, first + col);
      to.value[target] = from.value[source];
      to.error[target] = from.error[source];
      to.scale[target] = from.scale[source];
    }
  }
}

}  // namespace

Rows side_by_side(const Rows& left, const Rows& right) {
  Rows both(left.count, left.cols + right.cols);
  copy_columns(left, both, 0);
  copy_columns(right, both, left.cols);
  return both;
}

Rows activation_gradient(const Rows& dy, const Rows& x, Activation kind, DType dtype) {
  Rows dx(x.count, x.cols);
  const Storing storing(dtype);
  for (std::int32_t row = 0; row < dy.count; ++row) {
    for (std::int32_t col = 0; col < dy.cols; ++col) {
      const std::size_t i = x.at(row, col);
      const Number above = number_at(dy, dy.at(row, col));
      const Number in = number_at(x, i);
      if (kind == Activation::relu) {  // stores what dy has
        const Number passed = relu_gradient(above, in);
        dx.value[i] = passed.value;
        dx.error[i] = passed.off.error;
        dx.scale[i] = passed.off.scale;
      } else if (kind == Activation::gelu) {
        store(dx, i, storing,
              product(above, through(gelu_slope(in.value), kGeluBend, kLargestSlope, in)));
      } else {
        const Number up = number_at(x, x.at(row, dy.cols + col));
        const Number slope = through(silu_slope(in.value), kSiluBend, kLargestSlope, in);
        const Number gated =
            through(in.value * sigmoid(in.value), kLargestSlope, std::abs(in.value), in);
        store(dx, i, storing, product(product(above, up), slope));
        store(dx, x.at(row, dy.cols + col), storing, product(above, gated));
      }
    }
  }
  return dx;
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// A step of Adam. What its inputs are off by goes through a square, a root and a quotient; each is
// bounded from its own values, so that elements near zero have wide bounds of their own.
#include <algorithm>
#include <cmath>

#include "suite/adam_factors.h"
#include "suite/oracle_linear.h"
#include "suite/oracle_number.h"
#include "suite/rounding.h"

namespace commfuse {
namespace {

Number scaled(double factor, const Number& a) {
  const double size = std::abs(factor);
  return {factor * a.value, {size * a.off.error, size * a.off.scale}};
}

/// With what fp32 adds: factors, products and the sum are off by units roundoff of the terms.
Number sum(const Number& a, const Number& b) {
  const double own = kFunctionError * (size_of(a) + a.off.error + size_of(b) + b.off.error);
  return {a.value + b.value, {a.off.error + b.off.error + own, a.off.scale + b.off.scale + own}};
}

Number magnitude(const Number& a) { return {size_of(a), a.off}; }

Number square(const Number& a) {
  const double slope = 2 * size_of(a) + a.off.error;
  return {a.value * a.value, {slope * a.off.error, slope * a.off.scale}};
}

/// |sqrt(a) - sqrt(b)| is at most |a - b| / sqrt(a), and at most sqrt(|a - b|). What underflows
/// adds to nothing here: epsilon is far above the root of the smallest numbers.
Number root(const Number& a) {
  const double value = std::sqrt(a.value);
  const auto through = [&](double off) { return off < a.value ? off / value : std::sqrt(off); };
  return {value, {through(a.off.error), through(a.off.scale)}};
}

/// a / (b + epsilon), b >= 0.
Number over(const Number& a, const Number& b) {
  const Number divisor = sum(b, {kAdamEpsilon, {}});
  const double least =
      std::max(divisor.value - divisor.off.error, kAdamEpsilon * (1 - kFunctionError));
  const double quotient = a.value / divisor.value;
  const double error = (a.off.error + std::abs(quotient) * divisor.off.error) / least;
  const double scale = (a.off.scale + std::abs(quotient) * divisor.off.scale) / least;
  const double own = kFunctionError * (std::abs(quotient) + error);
  return {quotient, {error + own, scale + own}};
}

}  // namespace

AdamRows adam(const Rows& w, const Rows& m, const Rows& v, const Rows& g) {
  AdamRows next{Rows(w.count, w.cols), Rows(w.count, w.cols), Rows(w.count, w.cols)};
  const Storing storing(DType::f32);
  for (std::size_t i = 0; i < w.value.size(); ++i) {
    const Number gradient = number_at(g, i);
    const Number mean = sum(scaled(kAdamBeta1, number_at(m, i)), scaled(1 - kAdamBeta1, gradient));
    const Number squares = sum(scaled(kAdamBeta2, magnitude(number_at(v, i))),
                               scaled(1 - kAdamBeta2, square(gradient)));
    const Number direction = over(mean, root(scaled(kAdamUnbiased, squares)));
    store(next.m, i, storing, mean);
    store(next.v, i, storing, squares);
    store(next.w, i, storing,
          sum(scaled(kAdamKept, number_at(w, i)), scaled(-kAdamStepSize, direction)));
  }
  return next;
}

Rows rounded(const Rows& x, DType dtype) {
  Rows y(x.count, x.cols);
  const Storing storing(dtype);
  for (std::size_t i = 0; i < x.value.size(); ++i) store(y, i, storing, number_at(x, i));
  return y;
}

}  // namespace commfuse

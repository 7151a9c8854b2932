// SPDX-License-Identifier: Apache-2.0
// How far a result may lie from the float64 answer: the parts of every bound that the oracle
// gives.
//
// u(dtype) is the unit roundoff: storing a number y adds at most u |y|, and below the dtype's
// normal range half of its smallest step, which matters for fp16 alone. Above its range y becomes
// infinite; data.cpp says why that does not happen. Products are accumulated in fp32 in an order
// that the schedule chooses.
//
// A sum of n terms in fp32, in any order, is off by at most n u32 S with S the sum of the terms'
// absolute values; with rounding errors of mean 0 that are independent of each other it is off by
// at most lambda sqrt(n) u32 S with probability 1 - 2 exp(-lambda^2 / 2) (Higham and Mary, "A new
// approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41(5), 2019).
//
// Errors e_k of earlier results enter a gemm as sum_k e_k w_k. That is at most the 1-norm of the
// products. The weights of this gemm are drawn independently of everything before it, with random
// signs, so it is also at most lambda times the 2-norm of the products s_k w_k, with the same
// probability (Hoeffding), where s_k is a scale of the error: its bound, or, where the error is
// itself a sum of independent terms of random sign, the 2-norm of those (lambda is not paid twice).
// Random weights are uniform in a range around 0, hence sub-Gaussian with their variance, so that
// the 2-norm of the products is also taken as that of s times the root mean square of w.
// Norms of products are bounded by Hoelder's inequality from norms of the two factors, which cost
// nothing per element of the result.
//
// A gradient of gamma is a sum over rows. Rows are drawn independently of each other, so the same
// two bounds hold of their errors; and where the sum is stored on the way, what is stored, a sum of
// some of the rows, is off its share of the whole sum by at most lambda times the 2-norm of the
// terms (Hoeffding, for rows drawn without putting back).
//
// The smaller of the two bounds is taken. With lambda = 8 one correct element in 4e13 would exceed
// it, while the worst case alone is so wide for long reductions that a missing partial would pass.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "suite/tensor.h"

namespace commfuse {

constexpr double kLambda = 8;
constexpr double kUnitRoundoff32 = 0x1p-24;

constexpr double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f32:
      break;
    case DType::bf16:
      return 0x1p-8;
    case DType::f16:
      return 0x1p-11;
  }
  return kUnitRoundoff32;
}

/// What storing adds at most where the result is subnormal: half of the smallest number.
constexpr double underflow_error(DType dtype) {
  switch (dtype) {
    case DType::f32:
      break;
    case DType::bf16:
      return 0x1p-134;
    case DType::f16:
      return 0x1p-25;
  }
  return 0x1p-150;
}

/// Error of a sum of so many terms relative to the sum of their absolute values, and its scale.
inline double accumulation_scale(std::int64_t terms) {
  return std::sqrt(static_cast<double>(terms)) * kUnitRoundoff32;
}
inline double accumulation_error(std::int64_t terms) {
  return std::min(static_cast<double>(terms) * kUnitRoundoff32,
                  kLambda * accumulation_scale(terms));
}

/// Of sum_j v_j y_j^2 with independent standard sub-Gaussian y_j, one v_j at a time: at most
/// bound(), with probability 1 - exp(-lambda^2 / 2) (Hsu, Kakade and Zhang, "A tail inequality for
/// quadratic forms of subgaussian random vectors", 2012).
class TailOfSquares {
 public:
  void add(double v) {
    sum_ += v;
    squares_ += v * v;
    max_ = std::max(max_, v);
  }
  [[nodiscard]] double bound() const {
    constexpr double kTail = kLambda * kLambda / 2;
    return sum_ + 2 * std::sqrt(kTail * squares_) + 2 * kTail * max_;
  }

 private:
  double sum_ = 0;
  double squares_ = 0;
  double max_ = 0;
};

/// Norms of a vector's absolute values.
struct Norms {
  double sum = 0;
  double square = 0;  // sum of squares
  double max = 0;

  void add(double value) {
    const double size = std::abs(value);
    sum += size;
    square += size * size;
    max = std::max(max, size);
  }
  [[nodiscard]] double root() const { return std::sqrt(square); }
};

template <class Number>
Norms norms_of(std::span<const Number> values) {
  Norms norms;
  for (const Number value : values) norms.add(value);
  return norms;
}

/// At least sum_k |a_k b_k|.
inline double absolute_products(const Norms& a, const Norms& b) {
  return std::min({a.root() * b.root(), a.max * b.sum, a.sum * b.max});
}

/// At least sqrt(sum_k (a_k b_k)^2).
inline double root_of_squared_products(const Norms& a, const Norms& b) {
  return std::min(a.max * b.root(), a.root() * b.max);
}

}  // namespace commfuse

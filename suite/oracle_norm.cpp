// SPDX-License-Identifier: Apache-2.0
// RMSNorm and its gradients. With R = rms(x): errors e_k of x change R by at most
// sqrt(mean(e_k^2)), because R is a norm of the vector (x, constant); and, as R^2 changes by the
// mean of 2 x_k e_k + e_k^2, by at most that over R, where errors of random sign add up as in a
// gemm (rounding.h).
#include <algorithm>
#include <cmath>

#include "suite/oracle_linear.h"
#include "suite/oracle_number.h"
#include "suite/oracle_sum.h"
#include "suite/rounding.h"

namespace commfuse {
namespace {

/// What a row is divided by.
class Rms {
 public:
  Rms(const Rows& x, std::int32_t row) {
    const auto columns = static_cast<double>(x.cols);
    double squares = 0;
    double errors = 0;
    double scales = 0;
    double products = 0;
    for (std::int32_t col = 0; col < x.cols; ++col) {
      const Number in = number_at(x, x.at(row, col));
      squares += in.value * in.value;
      errors += in.off.error * in.off.error;
      scales += in.off.scale * in.off.scale;
      products += in.value * in.value * in.off.scale * in.off.scale;
    }
    value_ = std::sqrt(squares / columns + kNormEpsilon);
    const double mixed = 2 * std::sqrt(products);
    off_ = {std::min(std::sqrt(errors / columns), (kLambda * mixed + errors) / (columns * value_)),
            std::min(std::sqrt(scales / columns), (mixed + scales) / (columns * value_))};
    least_ = std::max(value_ - off_.error, std::sqrt(kNormEpsilon));
    // The root halves what the sum of squares is off by, relatively.
    const std::int64_t terms = std::int64_t{x.cols} + 2;
    own_ = {accumulation_error(terms) / 2 + kFunctionError,
            accumulation_scale(terms) / 2 + kFunctionError};
  }

  /// a / rms(x).
  [[nodiscard]] Number divide(const Number& a) const {
    const double quotient = a.value / value_;
    const double error = (a.off.error + std::abs(quotient) * off_.error) / least_;
    const double scale = (a.off.scale + std::abs(quotient) * off_.scale) / least_;
    return {quotient,
            {error + own_.error * (std::abs(quotient) + error),
             scale + own_.scale * (std::abs(quotient) + error)}};
  }

 private:
  double value_ = 0;
  double least_ = 0;  // with x off by its errors
  Deviation off_;     // from those
  Deviation own_;     // what fp32 adds, relative
};

/// The mean over a row of the products of two factors.
class MeanProduct {
 public:
  void add(const Number& a, const Number& b) {
    const Number both = product(a, b);
    sum_.value += both.value;
    sum_.off.error += both.off.error;
    sum_.off.scale += both.off.scale;
    absolute_ += size_of(both);
    ++terms_;
  }
  [[nodiscard]] Number result() const {
    const auto count = static_cast<double>(terms_);
    const std::int64_t roundings = terms_ + 4;
    return {sum_.value / count,
            {(sum_.off.error + accumulation_error(roundings) * absolute_) / count,
             (sum_.off.scale + accumulation_scale(roundings) * absolute_) / count}};
  }

 private:
  Number sum_;
  double absolute_ = 0;
  std::int64_t terms_ = 0;
};

Number difference(const Number& a, const Number& b) {
  const double own = kFunctionError * (size_of(a) + size_of(b));
  return {a.value - b.value, {a.off.error + b.off.error + own, a.off.scale + b.off.scale + own}};
}

}  // namespace

Rows norm(const Rows& x, const Rows& gamma, DType dtype) {
  Rows y(x.count, x.cols);
  const Storing storing(dtype);
  for (std::int32_t row = 0; row < x.count; ++row) {
    const Rms rms(x, row);
    for (std::int32_t col = 0; col < x.cols; ++col) {
      const std::size_t i = x.at(row, col);
      const Number factor = number_at(gamma, gamma.at(0, col));
      store(y, i, storing, product(rms.divide(number_at(x, i)), factor));
    }
  }
  return y;
}

Rows norm_gradient(const Rows& dy, const Rows& x, const Rows& gamma, DType dtype) {
  Rows dx(x.count, x.cols);
  const Storing storing(dtype);
  for (std::int32_t row = 0; row < x.count; ++row) {
    const Rms rms(x, row);
    const auto scaled = [&](std::int32_t col) {
      return product(number_at(dy, dy.at(row, col)), number_at(gamma, gamma.at(0, col)));
    };
    const auto normed = [&](std::int32_t col) { return rms.divide(number_at(x, x.at(row, col))); };
    MeanProduct sum;
    for (std::int32_t col = 0; col < x.cols; ++col) sum.add(scaled(col), normed(col));
    const Number mean = sum.result();
    for (std::int32_t col = 0; col < x.cols; ++col) {
      const Number along = product(normed(col), mean);
      store(dx, x.at(row, col), storing, rms.divide(difference(scaled(col), along)));
    }
  }
  return dx;
}

Rows gamma_gradient(const Rows& dy, const Rows& x, std::int32_t times_stored, DType dtype) {
  Rows d(1, x.cols);
  std::vector<RowSum> sums(static_cast<std::size_t>(x.cols));
  for (std::int32_t row = 0; row < x.count; ++row) {
    const Rms rms(x, row);
    for (std::int32_t col = 0; col < x.cols; ++col) {
      const std::size_t i = x.at(row, col);
      sums[static_cast<std::size_t>(col)].add(
          product(number_at(dy, i), rms.divide(number_at(x, i))));
    }
  }
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i].store(d, i, dtype, times_stored);
  return d;
}

}  // namespace commfuse

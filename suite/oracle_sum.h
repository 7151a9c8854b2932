// SPDX-License-Identifier: Apache-2.0
// A sum of the oracle over rows, with its error (rounding.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "suite/oracle_number.h"

namespace commfuse {

/// A sum over rows. Their errors are independent of each other and of random sign (rounding.h).
class RowSum {
 public:
  void add(const Number& term) {
    value_ += term.value;
    absolute_ += std::abs(term.value);
    squares_ += term.value * term.value;
    error_ += term.off.error;
    scales_ += term.off.scale * term.off.scale;
    ++terms_;
  }
  void store(Rows& rows, std::size_t i, DType dtype, std::int32_t times) const {
    const std::int64_t roundings = terms_ + times;
    const double spread = std::sqrt(scales_);
    const Deviation computed{
        accumulation_error(roundings) * absolute_ + std::min(error_, kLambda * spread),
        accumulation_scale(roundings) * absolute_ + spread};
    // A sum of some of the rows lies near its share of the whole one, as rows are alike.
    const double partial = std::min(absolute_, std::abs(value_) + kLambda * std::sqrt(squares_));
    Storing(dtype, times).store(rows, i, value_, times == 1 ? std::abs(value_) : partial, computed);
  }

 private:
  double value_ = 0;
  double absolute_ = 0;
  double squares_ = 0;
  double error_ = 0;
  double scales_ = 0;
  std::int64_t terms_ = 0;
};

}  // namespace commfuse

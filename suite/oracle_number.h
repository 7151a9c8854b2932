// SPDX-License-Identifier: Apache-2.0
// Numbers of the oracle with their errors (rounding.h), and what storing adds to those.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "suite/oracle_linear.h"
#include "suite/rounding.h"

namespace commfuse {

/// sigmoid, Phi, a root or a quotient in fp32 are off by a few units roundoff, and so is what is
/// multiplied with them; 16 are allowed.
constexpr double kFunctionError = 16 * kUnitRoundoff32;

/// An error and its scale.
struct Deviation {
  double error = 0;
  double scale = 0;
};

/// Of a number that is stored `times` times on its way, in the dtype, each time as at most
/// `absolute` in magnitude.
class Storing {
 public:
  explicit Storing(DType dtype, std::int32_t times = 1)
      : each_(unit_roundoff(dtype) * times), underflow_(underflow_error(dtype) * times) {}

  [[nodiscard]] Deviation of(double absolute, const Deviation& computed) const {
    const double stored = each_ * (1 + each_) * (absolute + computed.error) + underflow_;
    return {computed.error + stored, computed.scale + stored};
  }
  void store(Rows& y, std::size_t i, double value, double absolute,
             const Deviation& computed) const {
    const Deviation deviation = of(absolute, computed);
    y.value[i] = value;
    y.error[i] = deviation.error;
    y.scale[i] = deviation.scale;
  }

 private:
  double each_;  // relative to `absolute`
  double underflow_;
};

struct Number {
  double value = 0;
  Deviation off;
};

inline Number number_at(const Rows& rows, std::size_t i) {
  return {rows.value[i], {rows.error[i], rows.scale[i]}};
}

inline double size_of(const Number& number) { return std::abs(number.value); }

/// Without the rounding of the product itself.
inline Number product(const Number& a, const Number& b) {
  const double largest = std::abs(a.value) + a.off.error;
  return {a.value * b.value,
          {largest * b.off.error + std::abs(b.value) * a.off.error,
           largest * b.off.scale + std::abs(b.value) * a.off.scale}};
}

inline void store(Rows& rows, std::size_t i, const Storing& storing, const Number& number) {
  storing.store(rows, i, number.value, std::abs(number.value), number.off);
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// The bound. Element (i, j) of x w^T is off by an accumulation error of at most
// g |x_i| |w_j| (2-norms) and by the roundings of its stores, each at most u times the stored sum,
// or a constant where that is subnormal. Errors of different elements and stores are taken as
// independent and of mean 0, so their sum weighted with p stays below lambda times its 2-norm
// (rounding.h). The stored sums are sums of independent terms of random sign, so element (i, j) is
// sub-Gaussian with variance proxy s_j^2 = sum_k (x_ik w_jk)^2, and
//   sum_j (p_j y_ij)^2 <= sum_j v_j + 2 sqrt(t sum_j v_j^2) + 2 t max_j v_j,  v_j = (p_j s_j)^2,
// with probability 1 - exp(-t), t = lambda^2 / 2 (TailOfSquares in rounding.h).
#include "suite/oracle_projection.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "suite/rounding.h"

namespace commfuse {
namespace {

/// w^T p, and what the bound needs of the weight.
struct Projected {
  std::vector<double> vector;
  double length = 0;      // root of sum_j (p_j |w_j|)^2
  TailOfSquares by_root;  // v_j = (p_j |w_j|)^2, to be multiplied by max_k x_k^2
  TailOfSquares by_max;   // v_j = (p_j max_k |w_jk|)^2, to be multiplied by |x|^2

  [[nodiscard]] double stored_root(const Norms& x) const {
    return std::min(x.max * std::sqrt(by_root.bound()), x.root() * std::sqrt(by_max.bound()));
  }
};

Projected project_weight(const WeightPart& weight, std::span<const double> p,
                         const Source& source) {
  Projected result{.vector = std::vector<double>(static_cast<std::size_t>(weight.cols.count)),
                   .by_root = {},
                   .by_max = {}};
  const Fill part = piece_of(weight.global, {.rows = weight.rows.count, .cols = weight.cols.count},
                             weight.rows.first, weight.cols.first);
  std::vector<float> values(result.vector.size());
  double squares = 0;
  for (std::int32_t feature = 0; feature < weight.rows.count; ++feature) {
    fill_row(part, source, feature, values);
    const double factor = p[static_cast<std::size_t>(feature)];
    for (std::size_t k = 0; k < values.size(); ++k) result.vector[k] += factor * values[k];
    const Norms norms = norms_of(std::span<const float>(values));
    squares += factor * factor * norms.square;
    result.by_root.add(factor * factor * norms.square);
    result.by_max.add(factor * factor * norms.max * norms.max);
  }
  result.length = std::sqrt(squares);
  return result;
}

}  // namespace

ExpectedRow project(const Fill& x, Range rows, const WeightPart& weight, std::span<const double> p,
                    const Source& source, DType dtype) {
  const Projected projected = project_weight(weight, p, source);
  const double accumulation =
      accumulation_error(std::int64_t{weight.cols.count} + weight.pieces) * projected.length;
  const double stores = std::sqrt(2.0 * weight.pieces);
  const double storing = unit_roundoff(dtype) * stores;
  const double underflow = underflow_error(dtype) * stores * norms_of(p).root();
  const Fill part =
      piece_of(x, {.rows = rows.count, .cols = weight.cols.count}, rows.first, weight.cols.first);
  std::vector<float> values(projected.vector.size());
  ExpectedRow expected;
  for (std::int32_t row = 0; row < rows.count; ++row) {
    fill_row(part, source, row, values);
    double sum = 0;
    for (std::size_t k = 0; k < values.size(); ++k) sum += values[k] * projected.vector[k];
    const Norms norms = norms_of(std::span<const float>(values));
    expected.value.push_back(sum);
    expected.bound.push_back(kLambda * (accumulation * norms.root() +
                                        storing * projected.stored_root(norms) + underflow));
  }
  return expected;
}

}  // namespace commfuse

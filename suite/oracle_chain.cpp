// SPDX-License-Identifier: Apache-2.0
// Column f of the result is x u_0 with u_n the unit vector of f and u_(i-1) = a_i^T u_i: products
// of the weights with vectors, and one of x with a vector for each row.
//
// The bound, for a row x of 2-norm r_0 and random weights below w_i. Whatever y_(i-1) is stored
// after map i-1, it is independent of a_i, whose elements are uniform, so sums of independent signs
// (data.cpp): element k of y_i is sub-Gaussian with variance proxy (w_i |y_(i-1)|)^2 / 3,
// independent of the others. So the tail of squares (rounding.h) bounds its 2-norm r_i, and the
// 2-norm of its products with any fixed vector. Map i is off by an accumulation error of at most
// g r_(i-1) w_i sqrt(in) for each element, and by storing it, u |y_i|. What reaches the result of
// both are their products with u_i, which are taken as independent and of mean 0: their 2-norms are
// added up over the maps as a scale, and lambda times that is the error. Of the last map, whose
// result is known, both are taken as linear() takes them.
#include "suite/oracle_chain.h"

#include <cmath>
#include <vector>

#include "suite/rounding.h"

namespace commfuse {
namespace {

using Vector = std::vector<double>;

/// What the bound needs of a map.
struct Growth {
  double before = 1;   // bound on |y_(i-1)| / |x|
  double element = 0;  // root of the variance proxy of an element of y_i, / |y_(i-1)|
  double off = 0;      // scale of the accumulation error of an element, / |y_(i-1)|
};

std::vector<Growth> growth_of(std::span<const Fill> weights, DType dtype) {
  std::vector<Growth> growth;
  double size = 1;
  for (const Fill& weight : weights) {
    const double bound = weight_bound(weight);
    const std::int32_t in = weight.view.cols;
    const std::int32_t out = weight.view.rows;
    Growth map{.before = size, .element = bound / std::sqrt(3.0)};
    map.off = accumulation_scale(in) * bound * std::sqrt(in);
    growth.push_back(map);
    TailOfSquares elements;
    for (std::int32_t k = 0; k < out; ++k) elements.add(1);
    size *= (map.element * std::sqrt(elements.bound()) + kLambda * map.off * std::sqrt(out)) *
            (1 + 2 * unit_roundoff(dtype));
  }
  return growth;
}

/// One feature on its way back through the maps.
struct Column {
  Vector vector;         // u_i
  double last = 0;       // |u_(n-1)|: the weights of the last map
  double scale = 0;      // of errors of all maps but the last, / |x|
  double underflow = 0;  // the same, whatever x is
};

double root_of_weighted_squares(const Vector& vector) {
  TailOfSquares squares;
  for (const double value : vector) squares.add(value * value);
  return std::sqrt(squares.bound());
}

void add_errors(Column& column, const Growth& map, DType dtype) {
  const double length = norms_of(std::span<const double>(column.vector)).root();
  column.scale += map.before * (map.off * length + unit_roundoff(dtype) * map.element *
                                                       root_of_weighted_squares(column.vector));
  column.underflow += underflow_error(dtype) * length;
}

/// u_i becomes u_(i-1).
void multiply(std::vector<Column>& columns, const Fill& weight, const Source& source) {
  std::vector<Vector> products(columns.size(), Vector(static_cast<std::size_t>(weight.view.cols)));
  std::vector<float> values(static_cast<std::size_t>(weight.view.cols));
  for (std::int32_t row = 0; row < weight.view.rows; ++row) {
    fill_row(weight, source, row, values);
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const double factor = columns[c].vector[static_cast<std::size_t>(row)];
      for (std::size_t k = 0; k < values.size(); ++k) products[c][k] += factor * values[k];
    }
  }
  for (std::size_t c = 0; c < columns.size(); ++c) columns[c].vector = std::move(products[c]);
}

std::vector<Column> columns_of(std::span<const Fill> weights, std::span<const Growth> growth,
                               std::span<const std::int32_t> features, const Source& source,
                               DType dtype) {
  std::vector<Column> columns;
  const Fill& last = weights.back();
  std::vector<float> values(static_cast<std::size_t>(last.view.cols));
  for (const std::int32_t feature : features) {
    fill_row(last, source, feature, values);
    Column column{.vector = Vector(values.begin(), values.end())};
    column.last = norms_of(std::span<const float>(values)).root();
    columns.push_back(std::move(column));
  }
  for (std::size_t i = weights.size() - 1; i-- > 0;) {
    for (Column& column : columns) add_errors(column, growth[i], dtype);
    multiply(columns, weights[i], source);
  }
  return columns;
}

}  // namespace

Rows chain_columns(const Fill& x, Range tokens, std::span<const Fill> weights,
                   std::span<const std::int32_t> features, const Source& source, DType dtype) {
  const std::vector<Growth> growth = growth_of(weights, dtype);
  const std::vector<Column> columns = columns_of(weights, growth, features, source, dtype);
  const std::int32_t terms = weights.back().view.cols;
  Rows result(static_cast<std::int32_t>(features.size()), tokens.count);
  std::vector<float> values(static_cast<std::size_t>(x.view.cols));
  for (std::int32_t token = 0; token < tokens.count; ++token) {
    fill_row(x, source, tokens.first + token, values);
    const double length = norms_of(std::span<const float>(values)).root();
    for (std::int32_t c = 0; c < result.count; ++c) {
      const Column& column = columns[static_cast<std::size_t>(c)];
      double sum = 0;
      for (std::size_t k = 0; k < values.size(); ++k) sum += values[k] * column.vector[k];
      const std::size_t at = result.at(c, token);
      result.value[at] = sum;
      if (source.mode == DataMode::exact) continue;
      const double earlier = column.scale * length + column.underflow;
      const double products = growth.back().before * length * column.last;
      const double error = kLambda * earlier + accumulation_error(terms) * products;
      const double u = unit_roundoff(dtype);
      const double stored = u * (1 + u) * (std::abs(sum) + error) + underflow_error(dtype);
      result.error[at] = error + stored;
      result.scale[at] = earlier + accumulation_scale(terms) * products + stored;
    }
  }
  return result;
}

}  // namespace commfuse

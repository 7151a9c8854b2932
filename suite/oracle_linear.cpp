// SPDX-License-Identifier: Apache-2.0
#include "suite/oracle_linear.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "suite/oracle_number.h"
#include "suite/oracle_slopes.h"
#include "suite/rounding.h"

namespace commfuse {
namespace {

/// Rows that are multiplied with a weight row at once.
constexpr std::int32_t kBlock = 8;
using Block = std::array<double, kBlock>;

/// The values of up to kBlock rows, column by column.
std::vector<Block> interleaved(const Rows& x, std::int32_t first) {
  std::vector<Block> columns(static_cast<std::size_t>(x.cols), Block{});
  const std::int32_t rows = std::min(kBlock, x.count - first);
  for (std::int32_t row = 0; row < rows; ++row) {
    for (std::int32_t col = 0; col < x.cols; ++col) {
      columns[static_cast<std::size_t>(col)][static_cast<std::size_t>(row)] =
          x.value[x.at(first + row, col)];
    }
  }
  return columns;
}

Block dot(std::span<const float> weight, std::span<const Block> columns) {
  Block sums{};
  for (std::size_t k = 0; k < weight.size(); ++k) {
    if (weight[k] == 0.0F) continue;  // exact weights are sparse
    const double w = weight[k];
    for (std::size_t row = 0; row < sums.size(); ++row) sums[row] += w * columns[k][row];
  }
  return sums;
}

/// One output feature of a block of rows: the sum of the pieces, and of their absolute values.
struct PieceSums {
  Block sum{};
  Block absolute{};
};

PieceSums dot_pieces(std::span<const float> weight, std::span<const Block> columns,
                     std::int32_t pieces) {
  PieceSums result;
  const std::size_t run = weight.size() / static_cast<std::size_t>(pieces);
  for (std::size_t start = 0; start < weight.size(); start += run) {
    const Block part = dot(weight.subspan(start, run), columns.subspan(start, run));
    for (std::size_t row = 0; row < part.size(); ++row) {
      result.sum[row] += part[row];
      result.absolute[row] += std::abs(part[row]);
    }
  }
  return result;
}

/// Norms of a row's values, errors and scales.
struct RowNorms {
  Norms value, error, scale;
};

std::vector<RowNorms> row_norms(const Rows& x) {
  std::vector<RowNorms> norms;
  for (std::int32_t row = 0; row < x.count; ++row) {
    const auto norms_in = [&](std::span<const double> all) {
      return norms_of(all.subspan(x.at(row, 0), static_cast<std::size_t>(x.cols)));
    };
    norms.push_back({norms_in(x.value), norms_in(x.error), norms_in(x.scale)});
  }
  return norms;
}

/// A row of a weight.
struct WeightRow {
  Norms norms;
  double root_mean_square = 0;
  bool dense = false;
};

/// Of x_i . w_j before it is stored.
Deviation dot_deviation(const RowNorms& x, const WeightRow& row, std::int64_t terms) {
  const Norms& weights = row.norms;
  const double products = absolute_products(x.value, weights);
  double spread = root_of_squared_products(x.scale, weights);
  if (row.dense) spread = std::min(spread, x.scale.root() * row.root_mean_square);
  return {accumulation_error(terms) * products +
              std::min(absolute_products(x.error, weights), kLambda * spread),
          accumulation_scale(terms) * products + spread};
}

/// Every partial is stored once, and every addition of a reduction over ranks may be stored again:
/// each of these numbers is at most the sum of the partials' absolute values.
std::int32_t times_stored(const WeightPart& weight) {
  return (weight.pieces == 1 ? 1 : weight.pieces + 1) + weight.adds;
}

/// sigmoid and Phi in fp32 times x, of a function that has this slope there and changes it by at
/// most `bend` times what x is off by.
Deviation through(double slope, double bend, double x, const Deviation& in) {
  const double own = kFunctionError * std::abs(x);
  const double steepest = std::min(kLargestSlope, std::abs(slope) + bend * in.error);
  return {steepest * in.error + own, steepest * in.scale + own};
}

double silu(double x) { return x * sigmoid(x); }
double gelu(double x) { return x * 0.5 * std::erfc(-x / std::numbers::sqrt2); }

}  // namespace

void copy_row(const Rows& from, std::int32_t row, Rows& to, std::int32_t at) {
  const auto copy = [&](const std::vector<double>& source, std::vector<double>& target) {
    std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(from.at(row, 0)), from.cols,
                target.begin() + static_cast<std::ptrdiff_t>(to.at(at, 0)));
  };
  copy(from.value, to.value);
  copy(from.error, to.error);
  copy(from.scale, to.scale);
}

Rows input_rows(const Fill& global, Range cols, std::span<const std::int32_t> rows,
                const Source& source) {
  Rows result(static_cast<std::int32_t>(rows.size()), cols.count);
  const Fill part = piece_of(global, {.rows = global.view.rows, .cols = cols.count}, 0, cols.first);
  std::vector<float> values(static_cast<std::size_t>(cols.count));
  for (std::int32_t row = 0; row < result.count; ++row) {
    fill_row(part, source, rows[static_cast<std::size_t>(row)], values);
    std::copy(values.begin(), values.end(),
              result.value.begin() + static_cast<std::ptrdiff_t>(result.at(row, 0)));
  }
  return result;
}

Rows linear(const Rows& x, const WeightPart& weight, const Source& source, DType dtype) {
  Rows y(x.count, weight.rows.count);
  std::vector<std::vector<Block>> blocks;
  for (std::int32_t first = 0; first < x.count; first += kBlock) {
    blocks.push_back(interleaved(x, first));
  }
  const std::vector<RowNorms> norms = row_norms(x);
  const std::int64_t terms = std::int64_t{x.cols} + weight.pieces;
  const Storing storing(dtype, times_stored(weight));
  const Fill part = piece_of(weight.global, {.rows = weight.rows.count, .cols = x.cols},
                             weight.rows.first, weight.cols.first);
  std::vector<float> values(static_cast<std::size_t>(x.cols));
  for (std::int32_t feature = 0; feature < y.cols; ++feature) {
    fill_row(part, source, feature, values);
    WeightRow weights{.norms = norms_of(std::span<const float>(values)),
                      .dense = source.mode == DataMode::random};
    weights.root_mean_square = weights.norms.root() / std::sqrt(double{1} * x.cols);
    for (std::int32_t first = 0; first < x.count; first += kBlock) {
      const PieceSums sums =
          dot_pieces(values, blocks[static_cast<std::size_t>(first / kBlock)], weight.pieces);
      for (std::int32_t row = first; row < std::min(first + kBlock, x.count); ++row) {
        const auto lane = static_cast<std::size_t>(row - first);
        storing.store(y, y.at(row, feature), sums.sum[lane], sums.absolute[lane],
                      dot_deviation(norms[static_cast<std::size_t>(row)], weights, terms));
      }
    }
  }
  return y;
}

Rows activate(const Rows& x, Activation kind, DType dtype) {
  if (kind == Activation::relu) {  // adds no error of its own
    Rows y = x;
    for (double& value : y.value) value = std::max(value, 0.0);
    return y;
  }
  Rows y(x.count, x.cols);
  const Storing storing(dtype);
  for (std::size_t i = 0; i < x.value.size(); ++i) {
    const double value = gelu(x.value[i]);
    storing.store(y, i, value, std::abs(value),
                  through(gelu_slope(x.value[i]), kGeluBend, x.value[i], {x.error[i], x.scale[i]}));
  }
  return y;
}

Rows swiglu(const Rows& gate, const Rows& up, DType dtype) {
  Rows y(gate.count, gate.cols);
  const Storing storing(dtype);
  for (std::size_t i = 0; i < y.value.size(); ++i) {
    const double gated = silu(gate.value[i]);
    const Deviation of_gated = through(silu_slope(gate.value[i]), kSiluBend, gate.value[i],
                                       {gate.error[i], gate.scale[i]});
    const double largest_up = std::abs(up.value[i]) + up.error[i];
    storing.store(y, i, gated * up.value[i], std::abs(gated * up.value[i]),
                  {of_gated.error * largest_up + std::abs(gated) * up.error[i],
                   of_gated.scale * largest_up + std::abs(gated) * up.scale[i]});
  }
  return y;
}

Rows residual(const Rows& x, const Rows& r, DType dtype) {
  Rows y(x.count, x.cols);
  const Storing storing(dtype);
  for (std::size_t i = 0; i < y.value.size(); ++i) {
    const double value = x.value[i] + r.value[i];
    const double error = x.error[i] + r.error[i];
    const double own = kUnitRoundoff32 * (std::abs(value) + error);
    storing.store(y, i, value, std::abs(value), {error + own, x.scale[i] + r.scale[i] + own});
  }
  return y;
}

}  // namespace commfuse

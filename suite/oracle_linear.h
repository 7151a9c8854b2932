// SPDX-License-Identifier: Apache-2.0
// Linear layers, activations and norms of the oracle, their gradients, and steps of Adam: rows of
// numbers in float64, each with a bound on how far a computed one may be off (rounding.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "suite/compute.h"
#include "suite/data.h"

namespace commfuse {

struct Rows {
  std::int32_t count = 0;
  std::int32_t cols = 0;
  std::vector<double> value;  // row major
  std::vector<double> error;  // bound on |computed - value|
  std::vector<double> scale;  // of the error, where many are added up (rounding.h)

  Rows(std::int32_t row_count, std::int32_t col_count)
      : count(row_count),
        cols(col_count),
        value(static_cast<std::size_t>(row_count) * static_cast<std::size_t>(col_count)),
        error(value.size()),
        scale(value.size()) {}
  [[nodiscard]] std::size_t at(std::int32_t row, std::int32_t col) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(cols) +
           static_cast<std::size_t>(col);
  }
};

/// Row `at` of `to`, which has as many columns, becomes row `row` of `from`.
void copy_row(const Rows& from, std::int32_t row, Rows& to, std::int32_t at);

/// [first, first + count) of a tensor's rows or columns.
struct Range {
  std::int32_t first = 0;
  std::int32_t count = 0;
};

/// These rows of a global tensor, cut to `cols`; free of error.
Rows input_rows(const Fill& global, Range cols, std::span<const std::int32_t> rows,
                const Source& source);

/// A part of a global weight: output features `rows`, reduced over `cols`, which are cut into
/// `pieces` equal runs, each summed on a rank of its own and stored there. Where sums of other
/// weights are added to the same result, `adds` more times is it stored.
struct WeightPart {
  Fill global;
  Range rows;
  Range cols;
  std::int32_t pieces = 1;
  std::int32_t adds = 0;
};

/// x w^T for every row of x (x.cols == weight.cols.count), stored in `dtype`.
Rows linear(const Rows& x, const WeightPart& weight, const Source& source, DType dtype);

/// relu(x) or gelu(x), stored in `dtype`.
Rows activate(const Rows& x, Activation kind, DType dtype);
/// silu(gate) * up, stored in `dtype`.
Rows swiglu(const Rows& gate, const Rows& up, DType dtype);
/// The columns of `left`, then those of `right`, which has as many rows.
Rows side_by_side(const Rows& left, const Rows& right);

/// x + r, stored in `dtype`.
Rows residual(const Rows& x, const Rows& r, DType dtype);

/// f'(x) dy, stored in `dtype`, in x's columns: those of dy, for swiglu the gate, then up. Where
/// the error of x leaves its sign open, relu's slope may be 0 or 1.
Rows activation_gradient(const Rows& dy, const Rows& x, Activation kind, DType dtype);

/// x / rms(x) * gamma (Norm of compute.h), stored in `dtype`; gamma is one row.
Rows norm(const Rows& x, const Rows& gamma, DType dtype);
/// What reaches x from dy, stored in `dtype`.
Rows norm_gradient(const Rows& dy, const Rows& x, const Rows& gamma, DType dtype);
/// What reaches gamma, one row. The rows are summed in any groups (tiles, ranks), which are alike
/// and add up in any order; `times_stored` results on the way are stored in `dtype`, the last one
/// included: 1 where one op sums all rows.
Rows gamma_gradient(const Rows& dy, const Rows& x, std::int32_t times_stored, DType dtype);

/// What a step of Adam (compute.h) gives, stored in fp32.
struct AdamRows {
  Rows w, m, v;
};
AdamRows adam(const Rows& w, const Rows& m, const Rows& v, const Rows& g);
/// x stored in `dtype` once more.
Rows rounded(const Rows& x, DType dtype);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// Input values as a function of (seed, global tensor, global row, global column), so that any rank
// and the oracle can produce any element without communication, and schedules see the same numbers
// whatever the number of ranks.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "suite/tensor.h"

namespace commfuse {

/// exact: every partial sum of the workload is representable in its dtype (proved in data.cpp), so
/// all schedules agree bit for bit. random: dense, for timing and for comparison under a bound.
enum class DataMode : std::uint8_t { exact, random };

enum class Content : std::uint8_t {
  activation,  // exact: dense +-1;                      random: uniform in (-1, 1)
  weight,      // exact: 16 entries +-1 per row of in_features, else 0; random: uniform in (-1, 1) *
               // weight_bound()
  query,  // exact: the code of one visible key position, scaled so that softmax is one-hot; random:
          // as activation
  key,    // exact: the code of the row's own position;  random: as activation
};

constexpr std::int32_t kWeightHits = 16;

/// A region of a rank's tensor and where it lies in the global tensor that it is a piece of.
struct Fill {
  View view;  // one strip
  Content content = Content::activation;
  std::uint32_t global = 0;  // which global tensor; part of the hash
  std::int32_t row = 0;      // global row and column of the view's first element
  std::int32_t col = 0;
  std::int32_t width = 0;   // reduction length of a weight (columns of the global tensor); head_dim
                            // of query and key
  std::int32_t tokens = 0;  // query and key: sequence length
  bool causal = false;      // query: the target key must be visible
  /// The tensor is the transpose of the global one: row and col count in the transpose, whose
  /// element (i, j) is the global element (j, i). Slower, since a hash gives a run of a global row.
  bool transposed = false;
  // For weights of which many are applied one after the other:
  std::int32_t hits = kWeightHits;  // entries +-1 per row, where exact
  std::int32_t boost = 0;           // power of two on top of the bound, where random
};

struct Source {
  std::uint64_t seed = 1;
  DataMode mode = DataMode::exact;
};

/// Random weights lie below it: 2^boost / sqrt(in_features), the root rounded to a power of two.
double weight_bound(const Fill& weight);

/// The piece of a global tensor, given as a fill of all of it, that `view` of a rank's tensor
/// holds: `row` and `col` say where its first element lies in the global tensor.
Fill piece_of(const Fill& global, const View& view, std::int32_t row, std::int32_t col);

/// All of a global tensor, transposed; twice is the tensor itself.
Fill transpose_of(Fill global);

/// Row `row` (0-based within the fill) as float, out.size() == fill.view.cols. Values are exactly
/// representable in every dtype.
void fill_row(const Fill& fill, const Source& source, std::int32_t row, std::span<float> out);

/// Columns that the code of a key position takes in exact queries and keys. Softmax is one-hot only
/// where head_dim has room for them.
constexpr std::int32_t code_columns(std::int32_t tokens) {
  return std::bit_width(static_cast<std::uint32_t>(tokens) - 1U);
}

}  // namespace commfuse

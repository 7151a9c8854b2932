// SPDX-License-Identifier: Apache-2.0
// What a workload tells the oracle: its results in float64, from the global tensors, written apart
// from its stages. The oracle adds what holds for every workload (which rows a rank owns, what
// moves without being computed, when results must be equal).
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "suite/oracle_linear.h"

namespace commfuse {

/// An output that is one gemm of inputs: x w^T, the rows of the global tensor x from `first_row`
/// on.
struct Product {
  Fill x;
  WeightPart weight;
  std::int32_t first_row = 0;
};

/// Of the one tensor that a workload computes. `ranks` are the ranks whose part is asked for: where
/// a reduce-scatter sums it, the sum over them; otherwise one rank's own.
struct Answers {
  /// Whether exact data stay exact from end to end.
  bool exact = false;
  /// Rows of the output; for a reduce-scatter of its partial, numbered over all slices.
  std::function<Rows(Range ranks, std::span<const std::int32_t> rows)> rows;
  /// Empty where the output is not one gemm of inputs.
  std::function<Product(Range ranks)> product;
};

}  // namespace commfuse

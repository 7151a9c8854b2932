// SPDX-License-Identifier: Apache-2.0
// What a workload tells the oracle: its results in float64, from the global tensors, written apart
// from its stages. The oracle adds what holds for every workload (which rows a rank owns, what
// moves without being computed, when results must be equal).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "suite/oracle_linear.h"

namespace commfuse {

/// An output that is one gemm of inputs: x w^T, all rows of the global tensor x.
struct Product {
  Fill x;
  WeightPart weight;
};

/// Outputs are named by their tensor. `ranks` are the ranks whose part is asked for: of an output
/// that a reduce-scatter sums, the sum over them; of any other, one rank's own.
struct Answers {
  /// Whether exact data stay exact from end to end.
  bool exact = false;
  /// Rows of the computed tensor `output`; for a reduce-scatter its partial, numbered over all
  /// slices.
  std::function<Rows(TensorId output, Range ranks, std::span<const std::int32_t> rows)> rows;
  /// Empty where no output is one gemm of inputs.
  std::function<Product(TensorId output, Range ranks)> product;
};

}  // namespace commfuse

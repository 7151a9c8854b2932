// SPDX-License-Identifier: Apache-2.0
// What a workload tells the oracle: what it computes, in float64, from the global tensors, written
// apart from its stages. The oracle adds what holds for every workload (which rows a rank owns or
// receives, what moves without being computed, when results must be equal).
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "suite/oracle_linear.h"
#include "suite/tensor.h"

namespace commfuse {

/// A tensor that is one gemm of inputs: x w^T, the rows of the global tensor x from `first_row`
/// on.
struct Product {
  Fill x;
  WeightPart weight;
  std::int32_t first_row = 0;
};

/// Of one tensor that a workload computes. `ranks` are the ranks whose part is asked for: where a
/// reduction sums it, the sum over them; otherwise one rank's own.
struct Answers {
  /// An output itself, or what a stage computes of it before communication: the partial of a
  /// reduction, the send buffer of an all-to-all.
  TensorId tensor = 0;
  /// Whether exact data stay exact from end to end.
  bool exact = false;
  /// Rows of the tensor; of a partial or a send buffer, numbered over all slices.
  std::function<Rows(Range ranks, std::span<const std::int32_t> rows)> rows;
  /// Empty where the tensor is not one gemm of inputs.
  std::function<Product(Range ranks)> product = {};
};

}  // namespace commfuse

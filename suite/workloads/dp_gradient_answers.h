// SPDX-License-Identifier: Apache-2.0
// What the backward pass of data parallelism starts from, and the oracle's answers for its weight
// gradients. Inputs of the maps (X) are those that a forward pass saved, and given. The oracle sees
// a gradient as the product of dY^T and a weight [in, tokens of all ranks] whose transpose X is:
// reduced over tokens, a run of them on every rank, like a row-parallel layer over its features. dY
// of all maps but the last it gets from the other side: dY W_n ... W_i for some columns of W_i
// costs no more than products of matrices and those vectors. Both ways keep exact data exact
// (data.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "suite/answers.h"
#include "suite/shape.h"
#include "suite/workloads/dp_buckets.h"
#include "suite/workloads/dp_layers.h"

namespace commfuse {

/// The global tensors of a backward pass.
struct DpBackward {
  std::vector<DpLinear> linears;
  std::int32_t tokens = 0;  // of one rank
  Fill dy;                  // of the last map
  std::vector<Fill> xt;     // of each map
  std::vector<Fill> wt;     // as they are applied: of the last map first, none of the first map

  DpBackward(const Shape& shape, std::int32_t ranks);

  /// Of map i > 0, [in, out].
  [[nodiscard]] const Fill& weight(std::size_t i) const { return wt[linears.size() - 1 - i]; }
};

/// Copies row by row; `at` says which row of the result each is.
void place(const Rows& from, const std::vector<std::int32_t>& at, Rows& to);

/// Of the maps of a bucket, one below the other; `partial` is what a rank has of it.
Answers gradient_answers(TensorId partial, const Bucket& bucket, const DpBackward& pass,
                         const Shape& shape, const Source& source);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// What the data-parallel workloads share. A layer is the two linear maps of an MLP: up [ffn,
// hidden], then down [hidden, ffn]. What lies between them (activation, norms, attention) is left
// out, so that layers chain: data parallelism moves parameters and their gradients, whatever is
// computed in between.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "suite/data.h"
#include "suite/shape.h"

namespace commfuse {

/// One linear map, y = x w^T with w [out, in].
struct DpLinear {
  std::string name;  // "up", "down"; of several layers "up0", "down0", "up1", ...
  std::int32_t in = 0;
  std::int32_t out = 0;
};

/// Of all layers, in the order of the forward pass.
std::vector<DpLinear> dp_linears(const Shape& shape);

/// Kinds of global tensors; each has one for every linear map or bucket.
enum class DpInput : std::uint32_t {
  x = 1,   // [tokens of all ranks, hidden]: what the forward pass starts from
  w,       // [out, in]
  dy,      // [tokens of all ranks, hidden]: what the backward pass starts from
  xt,      // [in, tokens of all ranks]: an input that the forward pass saved, transposed
  wt,      // [in, out]: a weight that the backward pass multiplies with, transposed
  master,  // of a bucket: the weights that an optimizer steps, and their moments
  moment,
  square,
};

/// A fill of all of the global tensor of linear map number `linear`, [rows, cols].
Fill dp_input(DpInput input, std::size_t linear, Content content, std::int32_t rows,
              std::int32_t cols);

/// Weights [out, in] that are applied one after the other, made such that numbers keep their size:
/// exact data that starts from +-1 never sums absolute terms to more than `limit`, a power of two
/// and at least 16 where there is one map, and random results are about as large as what they were
/// computed from.
std::vector<Fill> dp_chained(std::vector<Fill> weights, std::int32_t limit);

/// Tokens of all ranks. Requires that the shape can be cut.
std::int32_t all_tokens(const Shape& shape, std::int32_t ranks);

/// Weights are cut over ranks by their rows, so both hidden and ffn; the tokens of all ranks can be
/// numbered.
std::string dp_unsupported(const Shape& shape, std::int32_t ranks);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/ulysses_answers.h"

#include <vector>

#include "suite/workloads/tpsp_answers.h"

namespace commfuse {

Rows projection_rows(const Shape& shape, const Fill& weight, const TokenRows& x, std::int32_t ranks,
                     std::int32_t rank, std::span<const std::int32_t> rows, const Source& source) {
  const std::int32_t share = weight.view.rows / ranks;
  const std::int32_t block = shape.tokens / ranks;
  Rows result(static_cast<std::int32_t>(rows.size()), share);
  for (std::int32_t peer = 0; peer < ranks; ++peer) {
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> places;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] / block != peer) continue;
      tokens.push_back(rank * block + rows[i] % block);
      places.push_back(static_cast<std::int32_t>(i));
    }
    if (tokens.empty()) continue;
    const Rows part = project(x(tokens), weight, {peer * share, share}, source, shape.dtype);
    for (std::int32_t i = 0; i < part.count; ++i) {
      copy_row(part, i, result, places[static_cast<std::size_t>(i)]);
    }
  }
  return result;
}

Rows out_projection(const Fill& weight, std::int32_t ranks, const Rows& o, const Source& source,
                    DType dtype) {
  return linear(o, row_parallel(weight, {0, ranks}, ranks), source, dtype);
}

}  // namespace commfuse

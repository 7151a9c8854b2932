// SPDX-License-Identifier: Apache-2.0
// The grid of kernels that write a matrix: thread (x, y) of block (X, Y) has row X * blockDim.y +
// y, and of that row every (gridDim.y * blockDim.x)-th vector from Y * blockDim.x + x on.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace commfuse {

struct RowGrid {
  dim3 grid;
  dim3 block;
};

/// Every row is covered; columns beyond the grid's reach are the loop's. `rows` and `vectors` (of
/// one row) are positive.
inline RowGrid row_grid(std::int64_t rows, std::int64_t vectors) {
  constexpr std::uint64_t kThreads = 256;
  constexpr std::uint64_t kMostInY = 65535;
  const auto wide = static_cast<std::uint64_t>(vectors);
  const std::uint64_t across = std::bit_ceil(std::min(wide, kThreads));
  const std::uint64_t down = kThreads / across;
  const std::uint64_t in_x = (static_cast<std::uint64_t>(rows) + down - 1) / down;
  const std::uint64_t in_y = std::min((wide + across - 1) / across, kMostInY);
  return {.grid = dim3(static_cast<unsigned>(in_x), static_cast<unsigned>(in_y)),
          .block = dim3(static_cast<unsigned>(across), static_cast<unsigned>(down))};
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// The gradient of gamma in three kernels: 1 / rms of every row; sums over groups of rows; the sum
// of those. A group is summed by threads that each have a few columns, so that enough of them are
// at work, and always in the same order. Plain C++.
#pragma once

#include <cstdint>

#include "suite/compute.h"

namespace commfuse {

struct GammaGroups {
  static constexpr std::int64_t kRows = 64;  // of a group; the last one may have fewer

  explicit GammaGroups(const GammaGradient& op)
      : rows(op.x.total_rows()), cols(op.x.cols), groups((rows + kRows - 1) / kRows) {}

  /// Workspace: a float for every row, then, aligned to 256 bytes, `cols` of them for every group.
  [[nodiscard]] std::int64_t sums_offset() const { return (rows + 63) / 64 * 64; }
  [[nodiscard]] std::int64_t workspace_bytes() const {
    return (sums_offset() + groups * cols) * static_cast<std::int64_t>(sizeof(float));
  }

  std::int64_t rows;
  std::int64_t cols;
  std::int64_t groups;
};

}  // namespace commfuse

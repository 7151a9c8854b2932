// SPDX-License-Identifier: Apache-2.0
// A view as runs of memory: equal lengths, in packed order, as long as the view's layout allows.
#pragma once

#include <cstdint>

#include "suite/tensor.h"

namespace commfuse {

/// Where row `packed_row` of the packed form starts, in elements from the tensor's block.
inline std::int64_t packed_row_offset(const View& view, const Tensor& tensor,
                                      std::int64_t packed_row) {
  const std::int64_t strip = packed_row / view.rows;
  const std::int64_t row = view.row + strip * view.row_step + packed_row % view.rows;
  return row * tensor.cols + view.col + strip * view.col_step;
}

/// Run i covers `length` elements from element offset(i) of the tensor's block. Keeps a reference
/// to the tensor.
class Runs {
 public:
  Runs(const View& view, const Tensor& tensor) : view_(view), tensor_(&tensor) {
    const bool full_width = view.cols == tensor.cols;
    const bool stacked = view.strips == 1 || (view.row_step == view.rows && view.col_step == 0);
    rows_per_run_ = !full_width ? 1 : stacked ? view.total_rows() : view.rows;
    length_ = rows_per_run_ * view.cols;
    count_ = rows_per_run_ == 0 ? 0 : view.total_rows() / rows_per_run_;
  }

  [[nodiscard]] std::int64_t length() const { return length_; }
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] std::int64_t offset(std::int64_t i) const {
    return packed_row_offset(view_, *tensor_, i * rows_per_run_);
  }

 private:
  View view_;
  const Tensor* tensor_;
  std::int64_t rows_per_run_ = 1;
  std::int64_t length_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace commfuse

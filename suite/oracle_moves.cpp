// SPDX-License-Identifier: Apache-2.0
#include "suite/oracle_moves.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "suite/rounding.h"

namespace commfuse {

Rows reduced_data(const Workload& workload, TensorId partial, std::span<const std::int32_t> rows,
                  const Source& source) {
  const Tensor& tensor = workload.tensors[partial];
  Rows sum(static_cast<std::int32_t>(rows.size()), tensor.cols);
  const double storing = unit_roundoff(tensor.dtype) * (workload.ranks + 1);
  for (std::int32_t rank = 0; rank < workload.ranks; ++rank) {
    const Rows part =
        input_rows(stand_in_data(workload, partial, rank), {0, sum.cols}, rows, source);
    for (std::size_t i = 0; i < sum.value.size(); ++i) {
      sum.value[i] += part.value[i];
      sum.error[i] += storing * (1 + storing) * std::abs(part.value[i]);
    }
  }
  for (double& error : sum.error) error += underflow_error(tensor.dtype) * (workload.ranks + 1);
  return sum;
}

Rows gathered_data(const Workload& workload, TensorId buffer, std::span<const std::int32_t> rows,
                   const Source& source) {
  Rows result(static_cast<std::int32_t>(rows.size()), workload.tensors[buffer].cols);
  std::vector<float> values(static_cast<std::size_t>(result.cols));
  for (std::int32_t rank = 0; rank < workload.ranks; ++rank) {
    for (const Fill& fill : initial_data(workload, rank, Portion::comm_only)) {
      if (fill.view.tensor != buffer) continue;
      for (std::int32_t i = 0; i < result.count; ++i) {
        const std::int32_t row = rows[static_cast<std::size_t>(i)] - fill.view.row;
        if (row < 0 || row >= fill.view.rows) continue;
        fill_row(fill, source, row, values);
        std::ranges::copy(values,
                          result.value.begin() + static_cast<std::ptrdiff_t>(result.at(i, 0)));
      }
    }
  }
  return result;
}

}  // namespace commfuse

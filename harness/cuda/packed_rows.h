// SPDX-License-Identifier: Apache-2.0
// Rows of a view's packed form, where strips break the distance between rows.
#pragma once

#include <cstdint>

#include "suite/tensor.h"

namespace commfuse {

/// The same view, as one strip where its strips touch.
inline View joined(const View& view) {
  if (view.strips == 1 || view.row_step != view.rows || view.col_step != 0) return view;
  View rectangle = view;
  rectangle.rows *= view.strips;
  rectangle.strips = 1;
  return rectangle;
}

/// How many rows lie at the pitch's distance from `packed_row` on, that row included.
inline std::int64_t rows_left(const View& view, std::int64_t packed_row) {
  return view.rows - packed_row % view.rows;
}

/// The packed row as a view of one row.
inline View packed_row_of(const View& view, std::int64_t packed_row) {
  View row = view.strip(static_cast<std::int32_t>(packed_row / view.rows));
  row.row += static_cast<std::int32_t>(packed_row % view.rows);
  row.rows = 1;
  return row;
}

}  // namespace commfuse

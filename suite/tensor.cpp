// SPDX-License-Identifier: Apache-2.0
#include "suite/tensor.h"

#include <fmt/format.h>

#include <algorithm>

#include "suite/error.h"

namespace commfuse {
namespace {

/// Strip numbers [first, last).
struct StripRange {
  std::int64_t first = 0;
  std::int64_t last = 0;

  [[nodiscard]] bool empty() const { return first >= last; }
};

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0);
}

/// The strips s in [0, strips) whose interval [start + s * step, start + s * step + length) meets
/// [low, high).
StripRange meeting(std::int64_t low, std::int64_t high, std::int64_t start, std::int64_t length,
                   std::int64_t step, std::int64_t strips) {
  if (length <= 0 || low >= high) return {};
  // Wanted: after < start + s * step < high.
  const std::int64_t after = low - length;
  if (step == 0) return after < start && start < high ? StripRange{0, strips} : StripRange{};
  const std::int64_t first =
      step > 0 ? floor_div(after - start, step) + 1 : floor_div(start - high, -step) + 1;
  const std::int64_t last =
      step > 0 ? floor_div(high - 1 - start, step) + 1 : floor_div(start - after - 1, -step) + 1;
  return {std::max<std::int64_t>(first, 0), std::min(last, strips)};
}

}  // namespace

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      break;
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "fp16";
  }
  return "fp32";
}

DType parse_dtype(std::string_view text) {
  for (const DType dtype : kDTypes) {
    if (text == name_of(dtype)) return dtype;
  }
  std::string valid;
  for (const DType dtype : kDTypes)
    valid += fmt::format("{}{}", valid.empty() ? "" : ", ", name_of(dtype));
  throw UsageError(fmt::format("unknown dtype '{}'; valid: {}", text, valid));
}

View View::strip(std::int32_t s) const {
  return {.tensor = tensor,
          .row = row + s * row_step,
          .rows = rows,
          .col = col + s * col_step,
          .cols = cols};
}

View whole(TensorId id, const Tensor& tensor) {
  return {.tensor = id, .rows = tensor.rows, .cols = tensor.cols};
}

View rows_of(TensorId id, const Tensor& tensor, std::int32_t row, std::int32_t rows) {
  return {.tensor = id, .row = row, .rows = rows, .cols = tensor.cols};
}

bool overlap(const View& a, const View& b) {
  if (a.tensor != b.tensor) return false;
  const bool a_fewer = a.strips <= b.strips;
  const View& few = a_fewer ? a : b;
  const View& many = a_fewer ? b : a;
  // The strips of `many` that meet one rectangle form a range in rows and a range in columns.
  for (std::int32_t s = 0; s < few.strips; ++s) {
    const View one = few.strip(s);
    const StripRange in_rows =
        meeting(one.row, one.row + one.rows, many.row, many.rows, many.row_step, many.strips);
    if (in_rows.empty()) continue;
    const StripRange in_cols =
        meeting(one.col, one.col + one.cols, many.col, many.cols, many.col_step, many.strips);
    if (std::max(in_rows.first, in_cols.first) < std::min(in_rows.last, in_cols.last)) return true;
  }
  return false;
}

bool contiguous(const View& view, const Tensor& tensor) {
  if (view.elements() == 0) return true;
  if (view.rows > 1 && view.cols != tensor.cols) return false;
  const std::int64_t step = std::int64_t{view.row_step} * tensor.cols + view.col_step;
  return view.strips == 1 || step == std::int64_t{view.rows} * view.cols;
}

std::string describe(const View& view, const Tensor& tensor) {
  const bool all_columns = view.col == 0 && view.cols == tensor.cols && view.col_step == 0;
  std::string text = fmt::format("{}[{}:{}, ", tensor.name, view.row, view.row + view.rows);
  text += all_columns ? ":]" : fmt::format("{}:{}]", view.col, view.col + view.cols);
  if (view.strips == 1) return text;
  text += fmt::format(" x {}", view.strips);
  if (view.row_step != 0) text += fmt::format(" every {} rows", view.row_step);
  if (view.col_step != 0) text += fmt::format(" every {} columns", view.col_step);
  return text;
}

}  // namespace commfuse

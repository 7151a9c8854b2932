// SPDX-License-Identifier: Apache-2.0
// Tensors and views: names for rectangles of numbers. They hold no storage; executors do.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace commfuse {

enum class DType : std::uint8_t { f32, bf16, f16 };
inline constexpr std::array kDTypes{DType::f32, DType::bf16, DType::f16};

constexpr std::int64_t bytes_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      break;
    case DType::bf16:
    case DType::f16:
      return 2;
  }
  return 4;
}
/// Whether elements are stored in fewer bits than the fp32 in which everything is computed.
constexpr bool is_narrow(DType dtype) { return bytes_of(dtype) < 4; }
std::string_view name_of(DType dtype);     // "fp32", "bf16", "fp16"
DType parse_dtype(std::string_view text);  // throws UsageError listing the valid names

using TensorId = std::uint32_t;

/// A row-major matrix, contiguous, the same shape on every rank. Weights are [out_features,
/// in_features].
struct Tensor {
  std::string name;
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  DType dtype = DType::f32;

  [[nodiscard]] std::int64_t elements() const { return std::int64_t{rows} * cols; }
  [[nodiscard]] std::int64_t bytes() const { return elements() * bytes_of(dtype); }
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

/// A rectangle of a tensor, or `strips` equal rectangles of it, strip s lying `s * row_step` rows
/// below and `s * col_step` columns right of the first. Strips of one view do not overlap each
/// other. Reading a view row by row, strip by strip, gives its packed form.
struct View {
  TensorId tensor = 0;
  std::int32_t row = 0;
  std::int32_t rows = 0;  // of one strip
  std::int32_t col = 0;
  std::int32_t cols = 0;  // of one strip
  std::int32_t strips = 1;
  std::int32_t row_step = 0;
  std::int32_t col_step = 0;

  [[nodiscard]] std::int64_t elements() const { return std::int64_t{rows} * cols * strips; }
  [[nodiscard]] std::int64_t total_rows() const { return std::int64_t{rows} * strips; }
  /// Strip s as a plain rectangle.
  [[nodiscard]] View strip(std::int32_t s) const;
  friend bool operator==(const View&, const View&) = default;
};

View whole(TensorId id, const Tensor& tensor);
/// Rows [row, row + rows), all columns.
View rows_of(TensorId id, const Tensor& tensor, std::int32_t row, std::int32_t rows);
bool overlap(const View& a, const View& b);
/// Whether the packed form lies in one unbroken run of memory.
bool contiguous(const View& view, const Tensor& tensor);
/// "name[row:end, col:end]", with " x strips" where there are several; for messages and --explain.
std::string describe(const View& view, const Tensor& tensor);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// Views as kernels see them, and how wide a kernel may read them. Plain C++.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "harness/cuda/device_storage.h"
#include "suite/tensor.h"

namespace commfuse {

/// A view as kernels see it: element (strip, row, col) is `data[strip * strip_step + row * pitch +
/// col]`, in elements.
struct DeviceView {
  void* data = nullptr;
  std::int64_t pitch = 0;
  std::int64_t strip_step = 0;
  std::int32_t rows = 0;  // of one strip
  std::int32_t cols = 0;
  std::int32_t strips = 1;
  DType dtype = DType::f32;

  [[nodiscard]] std::int64_t total_rows() const { return std::int64_t{rows} * strips; }
  [[nodiscard]] std::int64_t elements() const { return total_rows() * cols; }
};
DeviceView device_view(const View& view, const DeviceStorage& storage);

/// The same bytes in words of `word_bytes`, which must divide everything that vector_bytes() looks
/// at. Its dtype means nothing.
DeviceView in_words(const DeviceView& view, std::int64_t word_bytes);

/// Bytes of one vector access.
constexpr std::int64_t kVectorBytes = 16;
/// Whether every row of every view starts at a multiple of kVectorBytes and is one long, so that
/// kernels may use vector accesses.
bool vectors_fit(std::initializer_list<DeviceView> views);

}  // namespace commfuse

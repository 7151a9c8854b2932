// SPDX-License-Identifier: Apache-2.0
// Launches of twins by hand.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/cuda/device_view.h"
#include "harness/cuda/row_grid.h"
#include "tests/fakecuda/twin.h"
#include "tests/fakecuda/verdict.h"

namespace commfuse::fake {

/// A launch of the kernel of this name, as row_grid would make it unless told otherwise.
template <class... Arguments>
Work launch(std::string_view kernel, const RowGrid& shape, Arguments... arguments) {
  const auto all = twins();
  const auto entry = std::ranges::find(all, kernel, &TwinEntry::kernel);
  if (entry == all.end()) throw std::invalid_argument(std::string(kernel));
  std::array<void*, sizeof...(arguments)> pointers{&arguments...};
  return entry->twin({shape.grid, shape.block, 0, pointers.data()});
}

/// What the twin finds wrong with the launch; empty if nothing.
template <class... Arguments>
std::string refusal(std::string_view kernel, const RowGrid& shape, Arguments... arguments) {
  try {
    launch(kernel, shape, arguments...);
  } catch (const Finding& finding) {
    return finding.what();
  }
  return "";
}

/// fp32 numbers 0, 1, 2, ... as a matrix of `cols` columns.
struct Counted {
  explicit Counted(std::size_t elements) : values(elements) {
    for (std::size_t i = 0; i < elements; ++i) values[i] = static_cast<float>(i);
  }
  DeviceView view(std::int64_t offset, std::int32_t rows, std::int32_t cols, std::int64_t pitch,
                  std::int32_t strips = 1, std::int64_t step = 0) {
    return {values.data() + offset, pitch, step, rows, cols, strips, DType::f32};
  }
  alignas(16) std::vector<float> values;
};

/// Where ranges lie, in floats from `base` on, and how many floats they have.
inline std::vector<std::pair<std::int64_t, std::size_t>> offsets(const std::vector<Range>& ranges,
                                                                 const float* base) {
  std::vector<std::pair<std::int64_t, std::size_t>> all;
  for (const Range& range : ranges) {
    all.emplace_back(static_cast<const float*>(range.data) - base, range.bytes / sizeof(float));
  }
  return all;
}

}  // namespace commfuse::fake

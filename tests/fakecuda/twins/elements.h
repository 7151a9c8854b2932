// SPDX-License-Identifier: Apache-2.0
// What twins share: elements as fp32, ranges of views, and whether grids and vectors
// fit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "harness/cuda/device_view.h"
#include "tests/fakecuda/twin.h"

namespace commfuse::fake {

/// Element `index` from `data` on, exactly.
float load(const void* data, std::int64_t index, DType dtype);
/// Rounded to nearest even.
void store(float value, void* data, std::int64_t index, DType dtype);

/// Offset of a row of the packed form, in elements.
std::int64_t row_offset(const DeviceView& view, std::int64_t row);

/// Appends `bytes` from `data` on, to the last range where they touch.
void append(std::vector<Range>& ranges, const void* data, std::int64_t bytes);
/// Appends the view, row by row.
void append(std::vector<Range>& ranges, const DeviceView& view, std::int64_t element_bytes);

/// Throws Finding unless blocks are launchable and row_grid's threads have every row and at least
/// one vector of it.
void require_rows_covered(std::string_view kernel, const Launch& launch, std::int64_t rows);

/// Throws Finding where a kernel would access vectors that are not aligned, or cut the last one.
void require_vectors(std::string_view kernel, int elements,
                     std::initializer_list<DeviceView> views);

/// Of a kernel that reads and writes whole views; what it runs is still to be set.
Work work_of(std::string name, const DeviceView& written, std::initializer_list<DeviceView> read);

/// Virtual time of a kernel that moves so many bytes.
std::int64_t duration_ns(const std::vector<Range>& reads, const std::vector<Range>& writes);

}  // namespace commfuse::fake

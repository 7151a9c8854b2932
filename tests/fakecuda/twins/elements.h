// SPDX-License-Identifier: Apache-2.0
// What twins share: elements as fp32, ranges of views, and whether a grid covers its rows.
#pragma once

#include <cstddef>
#include <cstdint>
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

/// Virtual time of a kernel that moves so many bytes.
std::int64_t duration_ns(const std::vector<Range>& reads, const std::vector<Range>& writes);

}  // namespace commfuse::fake

// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/twins/elements.h"

#include <fmt/format.h>

#include <utility>

#include "harness/host/float_conversion.h"
#include "tests/fakecuda/verdict.h"

namespace commfuse::fake {

float load(const void* data, std::int64_t index, DType dtype) {
  float value = 0;
  load_floats(dtype, static_cast<const std::byte*>(data) + index * bytes_of(dtype), &value, 1);
  return value;
}

void store(float value, void* data, std::int64_t index, DType dtype) {
  store_floats(dtype, &value, static_cast<std::byte*>(data) + index * bytes_of(dtype), 1);
}

std::int64_t row_offset(const DeviceView& view, std::int64_t row) {
  return row / view.rows * view.strip_step + row % view.rows * view.pitch;
}

void append(std::vector<Range>& ranges, const void* data, std::int64_t bytes) {
  if (bytes <= 0) return;
  const auto size = static_cast<std::size_t>(bytes);
  if (!ranges.empty() &&
      static_cast<const std::byte*>(ranges.back().data) + ranges.back().bytes == data) {
    ranges.back().bytes += size;
  } else {
    ranges.push_back({data, size});
  }
}

void append(std::vector<Range>& ranges, const DeviceView& view, std::int64_t element_bytes) {
  for (std::int64_t row = 0; row < view.total_rows(); ++row) {
    append(ranges, static_cast<const std::byte*>(view.data) + row_offset(view, row) * element_bytes,
           view.cols * element_bytes);
  }
}

void require_rows_covered(std::string_view kernel, const Launch& launch, std::int64_t rows) {
  constexpr unsigned kMostThreads = 1024;
  constexpr unsigned kMostInY = 65535;
  const auto& [grid, block] = std::tie(launch.grid, launch.block);
  const bool launchable = grid.x > 0 && grid.y > 0 && grid.y <= kMostInY && block.x > 0 &&
                          block.y > 0 && std::uint64_t{block.x} * block.y <= kMostThreads &&
                          grid.z == 1 && block.z == 1;
  const auto covered = static_cast<std::int64_t>(std::uint64_t{grid.x} * block.y);
  if (launchable && covered >= rows) return;
  throw Finding(Verdict::Kind::host_error,
                fmt::format("{}: a grid of {} x {} blocks of {} x {} threads for {} rows", kernel,
                            grid.x, grid.y, block.x, block.y, rows));
}

void require_vectors(std::string_view kernel, int elements,
                     std::initializer_list<DeviceView> views) {
  if (elements == 1) return;
  for (const DeviceView& view : views) {
    const std::int64_t size = bytes_of(view.dtype);
    const std::int64_t vector = elements * size;
    bool fits = view.cols % elements == 0;
    for (std::int64_t row = 0; row < view.total_rows(); ++row) {
      const auto start = reinterpret_cast<std::intptr_t>(view.data) + row_offset(view, row) * size;
      fits = fits && start % vector == 0;
    }
    if (fits) continue;
    throw Finding(
        Verdict::Kind::host_error,
        fmt::format("{}: rows of {} elements are no vectors of {}", kernel, view.cols, elements));
  }
}

Work work_of(std::string name, const DeviceView& written, std::initializer_list<DeviceView> read) {
  Work work{.name = std::move(name), .reads = {}, .writes = {}, .run = {}};
  for (const DeviceView& view : read) append(work.reads, view, bytes_of(view.dtype));
  append(work.writes, written, bytes_of(written.dtype));
  work.duration_ns = duration_ns(work.reads, work.writes);
  return work;
}

std::int64_t duration_ns(const std::vector<Range>& reads, const std::vector<Range>& writes) {
  constexpr std::int64_t kLaunchNs = 2000;
  constexpr std::int64_t kBytesPerNs = 1000;
  std::int64_t bytes = 0;
  for (const std::vector<Range>* ranges : {&reads, &writes}) {
    for (const Range& range : *ranges) bytes += static_cast<std::int64_t>(range.bytes);
  }
  return kLaunchNs + bytes / kBytesPerNs;
}

}  // namespace commfuse::fake

// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/dp_buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "suite/workloads/dp_layers.h"
#include "suite/workloads/phases.h"

namespace commfuse {
namespace {

/// Rows of one map in a tile of the bucket: `rows` rows from row `first` of the map on, which lie
/// `offset` rows below the beginning of the tile's strip `strip`; and the same of the strips that
/// follow it.
struct Run {
  std::int32_t map = 0;
  std::int32_t first = 0;
  std::int32_t rows = 0;
  std::int32_t offset = 0;
  std::int32_t strip = 0;
  std::int32_t strips = 1;
};

/// Strips that lie alike in one map are one run, so that they are one operation.
void add_run(std::vector<Run>& runs, const Run& run, std::int32_t row_step) {
  const auto continued = std::ranges::find_if(runs, [&](const Run& other) {
    return other.map == run.map && other.rows == run.rows && other.offset == run.offset &&
           other.strip + other.strips == run.strip &&
           other.first + other.strips * row_step == run.first;
  });
  if (continued == runs.end()) {
    runs.push_back(run);
  } else {
    ++continued->strips;
  }
}

std::vector<Run> runs_of(const View& tile, std::int32_t rows_of_map) {
  std::vector<Run> runs;
  for (std::int32_t strip = 0; strip < tile.strips; ++strip) {
    for (std::int32_t offset = 0; offset < tile.rows;) {
      const std::int32_t row = tile.row + strip * tile.row_step + offset;
      Run run{.map = row / rows_of_map, .first = row % rows_of_map};
      run.rows = std::min(tile.rows - offset, rows_of_map - run.first);
      run.offset = offset;
      run.strip = strip;
      add_run(runs, run, tile.row_step);
      offset += run.rows;
    }
  }
  return runs;
}

/// The run's rows of a view that has the packed shape of the tile.
View rows_in(View packed, const View& tile, const Run& run) {
  const std::int32_t step = packed.strips > 1 ? packed.row_step : tile.rows;
  packed.row += run.strip * step + run.offset;
  packed.rows = run.rows;
  packed.strips = run.strips;
  packed.row_step = run.strips > 1 ? step : 0;
  return packed;
}

/// The columns of dy whose rows of the gradient a run is.
View columns_of(const Operand& dy, const View& tile, const Run& run) {
  View columns = dy.all();
  columns.col = run.first;
  columns.cols = run.rows;
  columns.strips = run.strips;
  columns.col_step = run.strips > 1 ? tile.row_step : 0;
  return columns;
}

}  // namespace

std::vector<Bucket> dp_buckets(const Shape& shape) {
  const std::vector<DpLinear> linears = dp_linears(shape);
  const std::int64_t bytes = std::int64_t{shape.hidden} * shape.ffn * bytes_of(shape.gradient);
  const auto held =
      static_cast<std::int32_t>(std::clamp<std::int64_t>(shape.bucket / bytes, 1, shape.layers));
  std::vector<Bucket> buckets;
  for (std::int32_t end = shape.layers; end > 0; end -= held) {
    std::array<Bucket, 2> pair;  // of down maps, which come first, and of up maps
    for (std::int32_t layer = end - 1; layer >= std::max(0, end - held); --layer) {
      const auto up = 2 * static_cast<std::size_t>(layer);
      pair[0].maps.push_back(up + 1);
      pair[1].maps.push_back(up);
    }
    for (Bucket& bucket : pair) {
      const DpLinear& first = linears[bucket.maps.front()];
      bucket.name = first.name;
      if (bucket.maps.size() > 1) bucket.name += "_to_" + linears[bucket.maps.back()].name;
      bucket.rows_of_map = first.out;
      bucket.cols = first.in;
      buckets.push_back(std::move(bucket));
    }
  }
  return buckets;
}

Phase last_weight_gradients(const Axis& axis, const Operand& dw,
                            const std::vector<WeightGradient>& maps) {
  if (maps.size() == 1) return last_weight_gradient(axis, dw, maps[0].dy, maps[0].x);
  const std::int32_t rows_of_map = maps.front().dy.tensor.cols;
  return [=](const Tile& tile, const Target& target) {
    const View rows = tile_rows(dw.id, dw.tensor, axis, tile);
    const View d = target.d.value_or(piece_of_columns(rows, tile));
    std::vector<Compute> ops;
    for (const Run& run : runs_of(rows, rows_of_map)) {
      const WeightGradient& map = maps[static_cast<std::size_t>(run.map)];
      Gemm gemm{.d = rows_in(d, rows, run),
                .a = columns_of(map.dy, rows, run),
                .b = piece_of_columns(map.x.all(), tile),
                .c = {},
                .transpose_a = true,
                .transpose_b = false};
      if (target.c) gemm.c = rows_in(*target.c, rows, run);
      ops.emplace_back(gemm);
    }
    return ops;
  };
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "suite/stage.h"

namespace commfuse {

View tile_rows(TensorId id, const Tensor& tensor, const Axis& axis, const Tile& tile) {
  const std::int32_t part_rows = axis.rows / tile.parts;
  const std::int32_t part_row = tile.part * part_rows;
  if (tile.peer != kEveryPeer) {
    return rows_of(id, tensor, tile.peer * axis.rows + part_row, part_rows);
  }
  if (tile.parts == 1) return rows_of(id, tensor, 0, axis.ranks * axis.rows);
  View view = rows_of(id, tensor, part_row, part_rows);
  if (axis.ranks > 1) {
    view.strips = axis.ranks;
    view.row_step = axis.rows;
  }
  return view;
}

View tile_columns(TensorId id, const Tensor& tensor, const Axis& axis, const Tile& tile) {
  const Tensor turned{.name = {}, .rows = tensor.cols, .cols = tensor.rows};
  const View rows = tile_rows(id, turned, axis, tile);
  return {.tensor = id,
          .rows = rows.cols,
          .col = rows.row,
          .cols = rows.rows,
          .strips = rows.strips,
          .col_step = rows.row_step};
}

Tile tile_of(const Stage& stage, std::int32_t rank, std::int32_t part, std::int32_t parts) {
  return {.peer = stage.own_slice ? rank : kEveryPeer, .part = part, .parts = parts};
}

std::optional<Outgoing> outgoing(const Stage& stage) {
  if (stage.reduce_scatter)
    return Outgoing{stage.reduce_scatter->partial, stage.reduce_scatter->result};
  if (stage.all_to_all) return Outgoing{stage.all_to_all->send, stage.all_to_all->receive};
  if (stage.all_reduce) return Outgoing{stage.all_reduce->partial, stage.all_reduce->result};
  return std::nullopt;
}

namespace {

std::int64_t sum_over(const Stage& stage, std::int64_t (*count)(const Compute&)) {
  std::int64_t sum = 0;
  for (const Phase& phase : stage.phases) {
    for (const Compute& op : phase(tile_of(stage, 0), Target{})) sum += count(op);
  }
  return sum;
}

}  // namespace

std::int64_t flops(const Stage& stage) { return sum_over(stage, &flops); }

std::int64_t model_flops(const Stage& stage) { return sum_over(stage, &model_flops); }

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/block_phases.h"

#include "suite/workloads/phases.h"

namespace commfuse {
namespace {

/// Those that a tile selects.
struct Blocks {
  std::int32_t first = 0;
  std::int32_t count = 1;
};
Blocks blocks_of(const Axis& axis, const Tile& tile) {
  if (tile.peer == kEveryPeer) return {0, axis.ranks};
  return {tile.peer, 1};
}

/// The tile's rows of what has one block for all ranks.
View rows_of_part(const Operand& operand, const Axis& axis, const Tile& tile) {
  const std::int32_t rows = axis.rows / tile.parts;
  return operand.rows(tile.part * rows, rows);
}

/// The tile's rows of one block.
View part_of_block(const Operand& operand, const Axis& axis, const Tile& tile, std::int32_t block) {
  View view = rows_of_part(operand, axis, tile);
  view.row += block * axis.rows;
  return view;
}

/// The same of every block of the tile, as strips.
View parts_of_blocks(const Operand& operand, const Axis& axis, const Tile& tile) {
  const Blocks blocks = blocks_of(axis, tile);
  View view = part_of_block(operand, axis, tile, blocks.first);
  if (blocks.count > 1) {
    view.strips = blocks.count;
    view.row_step = axis.rows;
  }
  return view;
}

/// The shares of a weight's columns that belong to the tile's blocks, as strips.
View shares_of_columns(const Operand& w, const Axis& axis, const Blocks& blocks) {
  View view = w.all();
  view.cols /= axis.ranks;
  view.col = blocks.first * view.cols;
  if (blocks.count > 1) {
    view.strips = blocks.count;
    view.col_step = view.cols;
  }
  return view;
}

/// The shares of a weight's rows that belong to the tile's blocks.
View shares_of_rows(const Operand& w, const Axis& axis, const Blocks& blocks) {
  const std::int32_t share = w.tensor.rows / axis.ranks;
  return w.rows(blocks.first * share, blocks.count * share);
}

}  // namespace

Phase input_gradient_over_pieces(const Axis& axis, const Operand& dx, const Operand& dy,
                                 const Operand& w) {
  return [=](const Tile& tile, const Target&) {
    const View sum = piece_of_columns(rows_of_part(dx, axis, tile), tile);
    const Blocks blocks = blocks_of(axis, tile);
    std::vector<Compute> ops;
    for (std::int32_t block = blocks.first; block < blocks.first + blocks.count; ++block) {
      ops.emplace_back(Gemm{.d = sum,
                            .a = part_of_block(dy, axis, tile, block),
                            .b = piece_of_columns(shares_of_rows(w, axis, {block, 1}), tile),
                            .c = sum,
                            .transpose_b = false});
    }
    return ops;
  };
}

Phase weight_gradient_over_pieces(const Axis& axis, const Operand& dw, const Operand& dy,
                                  const Operand& x) {
  return [=](const Tile& tile, const Target&) -> std::vector<Compute> {
    const View sum = piece_of_columns(shares_of_rows(dw, axis, blocks_of(axis, tile)), tile);
    return {Gemm{.d = sum,
                 .a = parts_of_blocks(dy, axis, tile),
                 .b = piece_of_columns(rows_of_part(x, axis, tile), tile),
                 .c = sum,
                 .transpose_a = true,
                 .transpose_b = false}};
  };
}

Phase last_input_gradient_for_peers(const Axis& axis, const Operand& dx, const Operand& dy,
                                    const Operand& w) {
  return [=](const Tile& tile, const Target& target) -> std::vector<Compute> {
    return {Gemm{.d = target.d.value_or(parts_of_blocks(dx, axis, tile)),
                 .a = rows_of_part(dy, axis, tile),
                 .b = shares_of_columns(w, axis, blocks_of(axis, tile)),
                 .c = target.c,
                 .transpose_b = false}};
  };
}

Phase weight_gradient_of_blocks(const Axis& axis, const Operand& dw, const Operand& dy,
                                const Operand& x) {
  return [=](const Tile& tile, const Target&) -> std::vector<Compute> {
    const View sum = piece_of_columns(shares_of_columns(dw, axis, blocks_of(axis, tile)), tile);
    return {Gemm{.d = sum,
                 .a = rows_of_part(dy, axis, tile),
                 .b = piece_of_columns(parts_of_blocks(x, axis, tile), tile),
                 .c = sum,
                 .transpose_a = true,
                 .transpose_b = false}};
  };
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// A stage: what is computed along one axis that is cut into peer slices, and what must move before
// or after it. A stage knows no schedule: implementations choose tiles, order and communication.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "suite/compute.h"
#include "suite/tensor.h"

namespace commfuse {

/// `ranks` peer slices of `rows` rows each: slice j belongs to peer j. A slice may be cut into
/// parts of whole `unit`s.
struct Axis {
  std::int32_t ranks = 1;
  std::int32_t rows = 0;
  std::int32_t unit = 1;  // 2 where rows are zigzag pairs

  [[nodiscard]] bool divides(std::int64_t parts) const {
    return parts > 0 && rows % (unit * parts) == 0;
  }
};

constexpr std::int32_t kEveryPeer = -1;

/// Part `part` of `parts` of one peer's slice, or of every peer's slice (equal strips), or
/// everything; and of a last gemm's output features, piece `feature` of `features`.
struct Tile {
  std::int32_t peer = kEveryPeer;
  std::int32_t part = 0;
  std::int32_t parts = 1;
  std::int32_t feature = 0;
  std::int32_t features = 1;
};

/// The rows of the tile in a buffer of axis.ranks * axis.rows rows, all columns. kEveryPeer with
/// parts == 1 is one rectangle.
View tile_rows(TensorId id, const Tensor& tensor, const Axis& axis, const Tile& tile);

/// The same with columns in place of rows: in a buffer of axis.ranks * axis.rows columns, all rows.
View tile_columns(TensorId id, const Tensor& tensor, const Axis& axis, const Tile& tile);

/// Where a last phase writes (D) and what it adds (C). Absent: the stage's own buffer, nothing
/// added. Views given here have the packed shape of the tile.
struct Target {
  std::optional<View> d;
  std::optional<View> c;
};

/// Returns the compute of one tile. Stateless. Only a stage's last phase looks at the target.
using Phase = std::function<std::vector<Compute>(const Tile&, const Target&)>;

/// Before the stage: every rank holds its own slice of `buffer` (rows of the axis) and needs all of
/// it.
struct Gather {
  TensorId buffer = 0;
};

/// After the stage: the sum over ranks of slice j of `partial` goes to rank j, as `result`
/// (axis.rows rows).
struct ReduceScatter {
  TensorId partial = 0;
  TensorId result = 0;
};

/// After the stage: block j of `send` goes to rank j, where it becomes the block of this rank in
/// `receive`. Both hold a block of axis.rows rows for every rank.
struct AllToAll {
  TensorId send = 0;
  TensorId receive = 0;
};

/// After the stage: every rank needs the sum over ranks of `partial` as `result`, both axis.ranks *
/// axis.rows rows (of any number in a stage of the own slice).
struct AllReduce {
  TensorId partial = 0;
  TensorId result = 0;
};

/// Before the stage: slices of `buffer` were received by an earlier stage's all-to-all. A schedule
/// may take them in the order they come in.
struct Pieces {
  TensorId buffer = 0;
};

/// At most one of gather and pieces, and one of the outputs. Without phases a stage only moves what
/// is there: what it gathers, or what it exchanges all to all.
struct Stage {
  std::string name;
  Axis axis;
  std::vector<Phase> phases;
  std::optional<Gather> gather = {};  // inputs
  std::optional<Pieces> pieces = {};
  std::optional<ReduceScatter> reduce_scatter = {};  // outputs
  std::optional<AllToAll> all_to_all = {};
  std::optional<AllReduce> all_reduce = {};
  /// Computes the own slice of the axis alone: tiles name the own peer. Only of a stage that
  /// neither waits for peers nor serves them, but for an all-reduce of what each rank makes of its
  /// slice, whole: its rows are none of the axis.
  bool own_slice = false;
};

/// Part `part` of `parts` of all that `rank` computes of a stage.
Tile tile_of(const Stage& stage, std::int32_t rank, std::int32_t part = 0, std::int32_t parts = 1);

/// The tensor that a stage's last phase computes for others, and the one in which what others
/// computed is received. Nothing for a stage without such an output.
struct Outgoing {
  TensorId computed = 0;
  TensorId received = 0;
};
std::optional<Outgoing> outgoing(const Stage& stage);

/// FLOPs of one rank over the whole stage: every phase over everything that a rank computes.
/// Executed, and needed.
std::int64_t flops(const Stage& stage);
std::int64_t model_flops(const Stage& stage);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/phases.h"

#include <fmt/format.h>

#include <cmath>

namespace commfuse {
namespace {

/// FLOPs of a stage are a few times its largest operation.
constexpr int kMultiplyAddBits = 59;
/// Memory is added up in bytes, over tensors and the scratch of many plans.
constexpr int kElementBits = 52;

/// The rows of a weight that make the tile's piece of the output features.
View piece_of_weight(const Operand& w, const Tile& tile) {
  const std::int32_t rows = w.tensor.rows / tile.features;
  return w.rows(tile.feature * rows, rows);
}

}  // namespace

View rows_in(const Operand& operand, const Axis& axis, const Tile& tile) {
  if (operand.tensor.rows == axis.rows) {
    const std::int32_t rows = axis.rows / tile.parts;
    return operand.rows(tile.part * rows, rows);
  }
  return operand.columns_of(tile_rows(operand.id, operand.tensor, axis, tile));
}

View piece_of_columns(View view, const Tile& tile) {
  view.cols /= tile.features;
  view.col += tile.feature * view.cols;
  return view;
}

Axis token_axis(const Shape& shape, std::int32_t ranks) {
  return {.ranks = ranks, .rows = shape.tokens / ranks};
}

Axis sequence_axis(const Shape& shape, std::int32_t ranks) {
  return {.ranks = ranks, .rows = shape.tokens / ranks, .unit = shape.causal ? 2 : 1};
}

Phase linear(const Axis& axis, const Operand& y, const Operand& x, const Operand& w) {
  return [=](const Tile& tile, const Target&) -> std::vector<Compute> {
    return {Gemm{.d = rows_in(y, axis, tile), .a = rows_in(x, axis, tile), .b = w.all(), .c = {}}};
  };
}

Phase last_linear(const Axis& axis, const Operand& y, const Operand& x, const Operand& w) {
  return [=](const Tile& tile, const Target& target) -> std::vector<Compute> {
    const View own = piece_of_columns(rows_in(y, axis, tile), tile);
    return {Gemm{.d = target.d.value_or(own),
                 .a = rows_in(x, axis, tile),
                 .b = piece_of_weight(w, tile),
                 .c = target.c}};
  };
}

Phase last_linear_by_features(const Axis& axis, const Operand& y, const Operand& x,
                              const Operand& w) {
  return [=](const Tile& tile, const Target& target) -> std::vector<Compute> {
    View features = rows_in(w, axis, tile);
    features.rows /= tile.features;
    features.row += tile.feature * features.rows;
    const View own = piece_of_columns(tile_columns(y.id, y.tensor, axis, tile), tile);
    return {Gemm{.d = target.d.value_or(own), .a = x.all(), .b = features, .c = target.c}};
  };
}

Phase last_weight_gradient(const Axis& axis, const Operand& dw, const Operand& dy,
                           const Operand& x) {
  return [=](const Tile& tile, const Target& target) -> std::vector<Compute> {
    const View own = piece_of_columns(rows_in(dw, axis, tile), tile);
    return {Gemm{.d = target.d.value_or(own),
                 .a = tile_columns(dy.id, dy.tensor, axis, tile),
                 .b = piece_of_columns(x.all(), tile),
                 .c = target.c,
                 .transpose_a = true,
                 .transpose_b = false}};
  };
}

Phase last_linear_for_peers(const Axis& axis, const Operand& y, const Operand& x,
                            const Operand& w) {
  return [=](const Tile& tile, const Target& target) -> std::vector<Compute> {
    const std::int32_t rows = axis.rows / tile.parts;
    const std::int32_t share = w.tensor.rows / axis.ranks;
    const bool every = tile.peer == kEveryPeer;
    View features = w.rows((every ? 0 : tile.peer) * share, share);
    View blocks = y.rows((every ? 0 : tile.peer) * axis.rows + tile.part * rows, rows);
    if (every) {
      features.strips = blocks.strips = axis.ranks;
      features.row_step = share;
      blocks.row_step = axis.rows;
    }
    return {Gemm{.d = target.d.value_or(blocks),
                 .a = x.rows(tile.part * rows, rows),
                 .b = features,
                 .c = target.c}};
  };
}

Phase linear_over_pieces(const Axis& axis, const Operand& y, const Operand& x, const Operand& w) {
  return [=](const Tile& tile, const Target&) {
    const std::int32_t rows = axis.rows / tile.parts;
    const std::int32_t first = tile.part * rows;
    const View sum = piece_of_columns(y.rows(first, rows), tile);
    const bool every = tile.peer == kEveryPeer;
    std::vector<Compute> ops;
    for (std::int32_t peer = every ? 0 : tile.peer; peer < (every ? axis.ranks : tile.peer + 1);
         ++peer) {
      View share = piece_of_weight(w, tile);
      share.cols /= axis.ranks;
      share.col = peer * share.cols;
      ops.emplace_back(
          Gemm{.d = sum, .a = x.rows(peer * axis.rows + first, rows), .b = share, .c = sum});
    }
    return ops;
  };
}

Phase input_gradient(const Axis& axis, const Operand& dx, const Operand& dy, const Operand& w) {
  return [phase = last_input_gradient(axis, dx, dy, w)](const Tile& tile, const Target&) {
    Tile every_feature = tile;
    every_feature.features = 1;
    every_feature.feature = 0;
    return phase(every_feature, {});
  };
}

Phase last_input_gradient(const Axis& axis, const Operand& dx, const Operand& dy,
                          const Operand& w) {
  return [=](const Tile& tile, const Target& target) -> std::vector<Compute> {
    const View own = piece_of_columns(rows_in(dx, axis, tile), tile);
    return {Gemm{.d = target.d.value_or(own),
                 .a = rows_in(dy, axis, tile),
                 .b = piece_of_columns(w.all(), tile),
                 .c = target.c,
                 .transpose_b = false}};
  };
}

Phase weight_gradient_over_rows(const Axis& axis, const Operand& dw, const Operand& dy,
                                const Operand& x) {
  return [=](const Tile& tile, const Target&) {
    const View dy_rows = rows_in(dy, axis, tile);
    const View x_rows = piece_of_columns(rows_in(x, axis, tile), tile);
    const View sum = piece_of_columns(dw.all(), tile);
    std::vector<Compute> ops;
    for (std::int32_t strip = 0; strip < dy_rows.strips; ++strip) {
      ops.emplace_back(Gemm{.d = sum,
                            .a = dy_rows.strip(strip),
                            .b = x_rows.strip(strip),
                            .c = sum,
                            .transpose_a = true,
                            .transpose_b = false});
    }
    return ops;
  };
}

Phase last_input_gradient_by_features(const Axis& axis, const Operand& dx, const Operand& dy,
                                      const Operand& w) {
  return [=](const Tile& tile, const Target& target) -> std::vector<Compute> {
    const auto columns = [&](const Operand& operand) {
      return piece_of_columns(tile_columns(operand.id, operand.tensor, axis, tile), tile);
    };
    return {Gemm{.d = target.d.value_or(columns(dx)),
                 .a = dy.all(),
                 .b = columns(w),
                 .c = target.c,
                 .transpose_a = false,
                 .transpose_b = false}};
  };
}

Phase activation(const Axis& axis, Activation kind, const Operand& y, const Operand& x) {
  return [=](const Tile& tile, const Target&) -> std::vector<Compute> {
    return {Elementwise{.y = rows_in(y, axis, tile), .x = rows_in(x, axis, tile), .kind = kind}};
  };
}

Phase activation_gradient(const Axis& axis, Activation kind, const Operand& dx, const Operand& dy,
                          const Operand& x) {
  return [=](const Tile& tile, const Target&) -> std::vector<Compute> {
    return {ActivationGradient{.dx = rows_in(dx, axis, tile),
                               .dy = rows_in(dy, axis, tile),
                               .x = rows_in(x, axis, tile),
                               .kind = kind}};
  };
}

Attention own_heads(const Shape& shape, std::int32_t ranks) {
  Attention own;
  own.heads = shape.heads / ranks;
  own.kv_heads = shape.kv_heads / ranks;
  own.head_dim = shape.head_dim;
  own.mask = shape.causal ? Mask::causal : Mask::full;
  return own;
}

Phase attention(const Axis& axis, const Attention& heads, const Operand& o, const Operand& q,
                const Operand& k, const Operand& v) {
  return [=](const Tile& tile, const Target& target) -> std::vector<Compute> {
    Attention op = heads;
    op.o = target.d.value_or(rows_in(o, axis, tile));
    op.q = rows_in(q, axis, tile);
    op.k = k.all();
    op.v = v.all();
    return {op};
  };
}

Phase norm(const Axis& axis, const Operand& y, const Operand& x, const Operand& gamma) {
  return [=](const Tile& tile, const Target&) -> std::vector<Compute> {
    return {Norm{.y = rows_in(y, axis, tile), .x = rows_in(x, axis, tile), .gamma = gamma.all()}};
  };
}

Phase residual(const Axis& axis, const Operand& y, const Operand& x, const Operand& r) {
  return [=](const Tile& tile, const Target&) -> std::vector<Compute> {
    return {Residual{
        .y = rows_in(y, axis, tile), .x = rows_in(x, axis, tile), .r = rows_in(r, axis, tile)}};
  };
}

std::string unless_given(std::string_view what, std::int32_t value) {
  return value > 0 ? std::string{} : fmt::format("needs {}, which the shape does not give", what);
}

std::string unless_one_layer(const Shape& shape) {
  return shape.layers == 1 ? std::string{}
                           : fmt::format("runs one layer, got {} (dp/* run several)", shape.layers);
}

std::string unless_divisible(std::string_view what, std::int32_t value, std::int32_t ranks) {
  if (value % ranks == 0) return {};
  return fmt::format("needs {} divisible by ranks ({}), got {}", what, ranks, value);
}

std::string unless_pairs(const Shape& shape, std::int32_t ranks) {
  if (!shape.causal || shape.tokens % (2 * std::int64_t{ranks}) == 0) return {};
  return fmt::format("needs tokens divisible by 2 x ranks (2 x {}) under a causal mask, got {}",
                     ranks, shape.tokens);
}

std::string unless_below(std::string_view what, double value, int bits) {
  if (value < std::ldexp(1.0, bits)) return {};
  return fmt::format("needs {} below 2^{}, got {:g}", what, bits, value);
}

std::string unless_countable(std::string_view product, const WorkSize& size) {
  std::string reason = unless_below(product, size.multiply_adds, kMultiplyAddBits);
  if (!reason.empty()) return reason;
  return unless_below("elements of all tensors", size.elements, kElementBits);
}

}  // namespace commfuse

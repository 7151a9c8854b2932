// SPDX-License-Identifier: Apache-2.0
// The phases that stages are made of, and the reasons why a shape cannot be cut.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "suite/stage.h"
#include "suite/workloads/workload_builder.h"

namespace commfuse {

// Of linear(), activation() and their like, and of norm() and residual(), operands hold the rows of
// all slices of the axis, or of the own slice alone (axis.rows), for a stage that computes only
// that.

/// The tile's piece of a view's columns, strip by strip.
View piece_of_columns(View view, const Tile& tile);

/// Slices of tokens.
Axis token_axis(const Shape& shape, std::int32_t ranks);
/// The same where attention knows positions: parts are whole zigzag pairs under a causal mask.
Axis sequence_axis(const Shape& shape, std::int32_t ranks);

/// The tile's rows of an operand that has all slices of the axis, or the own one alone.
View rows_in(const Operand& operand, const Axis& axis, const Tile& tile);

/// y = x w^T on the tile's rows of x and y; w is whole.
Phase linear(const Axis& axis, const Operand& y, const Operand& x, const Operand& w);
/// The same as the last phase of a stage: honours the target, and computes only the tile's piece of
/// the output features.
Phase last_linear(const Axis& axis, const Operand& y, const Operand& x, const Operand& w);
/// The last phase of a stage along the output features: y = x w^T on the tile's rows of w, which
/// are the columns of y; x is whole.
Phase last_linear_by_features(const Axis& axis, const Operand& y, const Operand& x,
                              const Operand& w);
/// The last phase of a stage along the output features of a weight gradient: dw = dy^T x on the
/// tile's rows of dw, which are the columns of dy; x is whole. Pieces of features are columns of x.
Phase last_weight_gradient(const Axis& axis, const Operand& dw, const Operand& dy,
                           const Operand& x);
/// The last phase of a stage whose peer slices are output features: y = x w^T, where block j of y's
/// rows is for rank j, of its share of w's rows. Parts are rows of x, and of every block.
Phase last_linear_for_peers(const Axis& axis, const Operand& y, const Operand& x, const Operand& w);
/// y = sum over the blocks j of x's rows of x_j w_j^T, w_j being the j-th share of w's columns: the
/// peers' blocks lie below each other and are the pieces of a reduction. Parts are rows of y, and
/// of every block. The tile's blocks are added to what is there (PlanBuilder::compute).
Phase linear_over_pieces(const Axis& axis, const Operand& y, const Operand& x, const Operand& w);
/// dx = dy w on the tile's rows: the gradient of what linear() multiplies.
Phase input_gradient(const Axis& axis, const Operand& dx, const Operand& dy, const Operand& w);
/// The same as the last phase of a stage: honours the target, and computes only the tile's piece of
/// dx's columns.
Phase last_input_gradient(const Axis& axis, const Operand& dx, const Operand& dy, const Operand& w);
/// dw = dy^T x, summed over the tile's rows of dy and x: tiles are added to what is there
/// (PlanBuilder::compute). Pieces of features are columns of x.
Phase weight_gradient_over_rows(const Axis& axis, const Operand& dw, const Operand& dy,
                                const Operand& x);
/// The last phase of a stage along the input features of a weight: dx = dy w on the tile's columns
/// of dx and w; dy is whole.
Phase last_input_gradient_by_features(const Axis& axis, const Operand& dx, const Operand& dy,
                                      const Operand& w);
/// y = kind(x) on the tile's rows.
Phase activation(const Axis& axis, Activation kind, const Operand& y, const Operand& x);
/// dx = kind'(x) dy on the tile's rows.
Phase activation_gradient(const Axis& axis, Activation kind, const Operand& dx, const Operand& dy,
                          const Operand& x);
/// What a rank attends with where heads and kv heads are cut; without views.
Attention own_heads(const Shape& shape, std::int32_t ranks);
/// The tile's query rows against all keys; honours the target. `heads` names heads, kv_heads,
/// head_dim and mask; its views are set here.
Phase attention(const Axis& axis, const Attention& heads, const Operand& o, const Operand& q,
                const Operand& k, const Operand& v);

/// y = x / rms(x) * gamma on the tile's rows.
Phase norm(const Axis& axis, const Operand& y, const Operand& x, const Operand& gamma);
/// y = x + r on the tile's rows.
Phase residual(const Axis& axis, const Operand& y, const Operand& x, const Operand& r);

/// "needs ffn, which the shape does not give", or nothing.
std::string unless_given(std::string_view what, std::int32_t value);
/// For what is a part of one layer: "runs one layer, got 4 (dp/* run several)", or nothing.
std::string unless_one_layer(const Shape& shape);
/// "needs tokens divisible by ranks (4), got 9", or nothing.
std::string unless_divisible(std::string_view what, std::int32_t value, std::int32_t ranks);
/// Under a causal mask slices hold whole zigzag pairs: "needs tokens divisible by 2 x ranks (2 x 4)
/// under a causal mask, got 12", or nothing.
std::string unless_pairs(const Shape& shape, std::int32_t ranks);
/// "needs ffn below 2^31, got 4.29497e+09", or nothing.
std::string unless_below(std::string_view what, double value, int bits);

/// What decides whether a workload can be counted in 63 bits, before anything is cut.
struct WorkSize {
  double multiply_adds = 0;  // of the largest operation
  double elements = 0;       // of all tensors together
};
/// "needs tokens x hidden x ffn below 2^59, got 1.15292e+18", with `product` naming the
/// multiply-adds; or the like about the elements; or nothing.
std::string unless_countable(std::string_view product, const WorkSize& size);

}  // namespace commfuse

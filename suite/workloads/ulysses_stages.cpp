// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/ulysses_stages.h"

#include <fmt/format.h>

#include <utility>

#include "suite/workloads/phases.h"
#include "suite/workloads/tpsp_answers.h"
#include "suite/workloads/ulysses_answers.h"

namespace commfuse {
namespace {

using RowNumbers = std::span<const std::int32_t>;

/// Attention of the heads that one rank has.
Shape local_shape(Shape shape, std::int32_t ranks) {
  shape.heads /= ranks;
  shape.kv_heads /= ranks;
  return shape;
}

/// What a rank attends with where nothing is exchanged.
AttentionInputs stand_in_inputs(const Shape& local, const Fill& q, const Fill& k, const Fill& v,
                                const Source& source) {
  const auto head_of = [=](const Fill& global) {
    return [=](std::int32_t head) {
      return all_rows(global, {head * local.head_dim, local.head_dim}, source);
    };
  };
  return {.q =
              [=](Range heads, RowNumbers rows) {
                return input_rows(q, {heads.first * local.head_dim, heads.count * local.head_dim},
                                  rows, source);
              },
          .k = head_of(k),
          .v = head_of(v)};
}

/// Rows of O as a rank has them in blocks, one for the heads of each rank.
Rows rows_of_blocks(const Fill& blocks, const Axis& axis, RowNumbers rows, const Source& source) {
  const std::int32_t width = blocks.view.cols;
  Rows o(static_cast<std::int32_t>(rows.size()), axis.ranks * width);
  for (std::int32_t peer = 0; peer < axis.ranks; ++peer) {
    std::vector<std::int32_t> of_block(rows.begin(), rows.end());
    for (std::int32_t& row : of_block) row += peer * axis.rows;
    const Rows block = input_rows(blocks, {0, width}, of_block, source);
    for (std::int32_t i = 0; i < o.count; ++i) {
      std::copy_n(block.value.begin() + static_cast<std::ptrdiff_t>(block.at(i, 0)), width,
                  o.value.begin() + static_cast<std::ptrdiff_t>(o.at(i, peer * width)));
    }
  }
  return o;
}

}  // namespace

Exchanged exchanged(WorkloadBuilder& builder, std::string_view name, const Axis& axis,
                    std::int32_t cols) {
  const std::int32_t rows = axis.ranks * axis.rows;
  const Operand send = builder.tensor(fmt::format("{}_sent", name), rows, cols);
  return {send, builder.tensor(std::string(name), rows, cols)};
}

Projections add_projections(WorkloadBuilder& builder, const Shape& shape, const Axis& axis,
                            const Operand& x) {
  const std::int32_t width = shape.heads * shape.head_dim;
  const std::int32_t kv_width = shape.kv_heads * shape.head_dim;
  const Projections made{.wk = builder.weight("Wk", kv_width, shape.hidden),
                         .wv = builder.weight("Wv", kv_width, shape.hidden),
                         .wq = builder.weight("Wq", width, shape.hidden),
                         .k = exchanged(builder, "K", axis, kv_width / axis.ranks),
                         .v = exchanged(builder, "V", axis, kv_width / axis.ranks),
                         .q = exchanged(builder, "Q", axis, width / axis.ranks)};
  const auto stage = [&](std::string_view name, const Exchanged& moved, const Operand& weight) {
    builder.stage({.name = std::string(name),
                   .axis = axis,
                   .phases = {last_linear_for_peers(axis, moved.send, x, weight)},
                   .all_to_all = AllToAll{moved.send.id, moved.receive.id}});
  };
  stage("k", made.k, made.wk);
  stage("v", made.v, made.wv);
  stage("q", made.q, made.wq);
  return made;
}

std::vector<Fill> weight_inputs(const ProjectionWeights& weights, const Projections& operands) {
  return {piece_of(weights.k, operands.wk.all(), 0, 0),
          piece_of(weights.v, operands.wv.all(), 0, 0),
          piece_of(weights.q, operands.wq.all(), 0, 0)};
}

std::vector<Answers> projection_answers(const Shape& shape, const Projections& operands,
                                        const ProjectionWeights& weights, const TokenRows& x,
                                        bool exact, std::int32_t ranks, const Source& source) {
  const auto answer = [&](const Exchanged& moved, const Fill& weight) {
    return Answers{
        .tensor = moved.send.id, .exact = exact, .rows = [=](Range asked, RowNumbers rows) {
          return projection_rows(shape, weight, x, ranks, asked.first, rows, source);
        }};
  };
  return {answer(operands.k, weights.k), answer(operands.v, weights.v),
          answer(operands.q, weights.q)};
}

void add_attention(WorkloadBuilder& builder, const Shape& shape, const Axis& axis,
                   const AttentionOperands& operands, std::optional<Pieces> pieces) {
  const auto& [q, k, v, o] = operands;
  Attention heads;
  heads.heads = shape.heads / axis.ranks;
  heads.kv_heads = shape.kv_heads / axis.ranks;
  heads.head_dim = shape.head_dim;
  heads.mask = shape.causal ? Mask::causal : Mask::full;
  builder.stage({.name = "attention",
                 .axis = axis,
                 .phases = {attention(axis, heads, o.send, q, k, v)},
                 .pieces = pieces,
                 .all_to_all = AllToAll{o.send.id, o.receive.id}});
}

Answers attention_answer(const Shape& shape, TensorId sent, std::int32_t ranks, bool exact,
                         AttentionInputs inputs) {
  return {.tensor = sent, .exact = exact, .rows = [=](Range asked, RowNumbers rows) {
            return attend(shape, inputs, share_of(asked, shape.heads, ranks), rows);
          }};
}

Answers stand_in_attention(const Shape& shape, const AttentionOperands& operands,
                           std::int32_t ranks, const Source& source) {
  const auto fill = [=](const Operand& operand, std::int32_t rank) {
    return stand_in_data(operand.id, operand.tensor, ranks, rank);
  };
  return {.tensor = operands.o.send.id, .rows = [=](Range asked, RowNumbers rows) {
            const Shape local = local_shape(shape, ranks);
            const std::int32_t rank = asked.first;
            const AttentionInputs inputs =
                stand_in_inputs(local, fill(operands.q, rank), fill(operands.k, rank),
                                fill(operands.v, rank), source);
            return attend(local, inputs, {0, local.heads}, rows);
          }};
}

void add_out_projection(WorkloadBuilder& builder, const Axis& axis, const Operand& y,
                        const Operand& o, const Operand& weight) {
  builder.stage({.name = "out",
                 .axis = axis,
                 .phases = {linear_over_pieces(axis, y, o, weight)},
                 .pieces = Pieces{o.id}});
}

Answers out_answer(const Shape& shape, TensorId y, const Axis& axis, const Source& source) {
  return {.tensor = y,
          .rows = [=, inputs = projected_inputs(shape, projection_weights(shape),
                                                input_tokens(shape, source), source)](
                      Range asked, RowNumbers rows) {
            std::vector<std::int32_t> tokens(rows.begin(), rows.end());
            for (std::int32_t& token : tokens) token += asked.first * axis.rows;
            return out_projection(tpsp_input(shape, TpspInput::out), axis.ranks,
                                  attend(shape, inputs, {0, shape.heads}, tokens), source,
                                  shape.dtype);
          }};
}

Answers stand_in_out(const Shape& shape, const Fill& weight, TensorId y, const Operand& o,
                     const Axis& axis, const Source& source) {
  return {.tensor = y, .exact = true, .rows = [=](Range asked, RowNumbers rows) {
            const Fill blocks = stand_in_data(o.id, o.tensor, axis.ranks, asked.first);
            return out_projection(weight, axis.ranks, rows_of_blocks(blocks, axis, rows, source),
                                  source, shape.dtype);
          }};
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// The fused QKV projection. Its weight is stacked by kv group, as Megatron-LM has it: the query
// heads of a group, its key head, its value head; so whole groups lie next to each other and a rank
// holds one run of rows.

#include "suite/workloads/phases.h"
#include "suite/workloads/tpsp.h"
#include "suite/workloads/tpsp_answers.h"
#include "suite/workloads/tpsp_backward_answers.h"

namespace commfuse {
namespace {

/// Beyond the numbers of the inputs that other workloads share. Backward, the transpose of the
/// weight is what is summed over its rows.
constexpr std::uint32_t kWeightNumber = 64;
constexpr std::uint32_t kGradientNumber = 65;
constexpr std::uint32_t kTransposeNumber = 66;

/// Output features of all ranks.
double features(const Shape& shape) {
  return (double{1} * shape.heads + 2.0 * shape.kv_heads) * shape.head_dim;
}

/// X, W and QKV.
WorkSize qkv_size(const Shape& shape) {
  const double tokens = shape.tokens;
  const double hidden = shape.hidden;
  const double width = features(shape);
  return {tokens * hidden * width, tokens * hidden + width * hidden + tokens * width};
}

Fill weight_of(const Shape& shape) {
  const auto rows = static_cast<std::int32_t>(features(shape));
  return {.view = {.rows = rows, .cols = shape.hidden},
          .content = Content::weight,
          .global = kWeightNumber,
          .width = shape.hidden};
}

/// Of QKV, what reaches it.
Fill gradient_of(const Shape& shape) {
  const auto cols = static_cast<std::int32_t>(features(shape));
  return {.view = {.rows = shape.tokens, .cols = cols},
          .content = Content::activation,
          .global = kGradientNumber,
          .width = cols};
}

Fill transposed_weight_of(const Shape& shape) {
  const auto cols = static_cast<std::int32_t>(features(shape));
  return {.view = {.rows = shape.hidden, .cols = cols},
          .content = Content::weight,
          .global = kTransposeNumber,
          .width = cols};
}

/// The product of dQKV with the columns of the ranks asked for.
Answers input_gradient_answer(TensorId partial, const Shape& shape, std::int32_t ranks,
                              const Source& source) {
  const Fill dqkv = gradient_of(shape);
  const Fill weight = transposed_weight_of(shape);
  const auto part = [=](Range asked) {
    return WeightPart{.global = weight,
                      .rows = {0, shape.hidden},
                      .cols = share_of(asked, weight.view.cols, ranks),
                      .pieces = asked.count};
  };
  return {.tensor = partial,
          .exact = true,
          .rows =
              [=](Range asked, std::span<const std::int32_t> rows) {
                return linear(input_rows(dqkv, part(asked).cols, rows, source), part(asked), source,
                              shape.dtype);
              },
          .product =
              [=](Range asked) {
                return Product{dqkv, part(asked)};
              }};
}

Answers qkv_answers(TensorId qkv, const Shape& shape, std::int32_t ranks, const Source& source) {
  const Fill x = tpsp_input(shape, TpspInput::x);
  const Fill weight = weight_of(shape);
  const auto part = [=](Range asked) {
    return WeightPart{.global = weight,
                      .rows = share_of(asked, weight.view.rows, ranks),
                      .cols = {0, shape.hidden}};
  };
  return {.tensor = qkv,
          .exact = true,
          .rows =
              [=](Range asked, std::span<const std::int32_t> rows) {
                return linear(input_rows(x, {0, shape.hidden}, rows, source), part(asked), source,
                              shape.dtype);
              },
          .product =
              [=](Range asked) {
                return Product{x, part(asked)};
              }};
}

}  // namespace

std::string tpsp_qkv_unsupported(const Shape& shape, std::int32_t ranks) {
  for (const auto& reason :
       {unless_one_layer(shape), unless_given("tokens", shape.tokens),
        unless_given("heads", shape.heads), unless_divisible("tokens", shape.tokens, ranks),
        unless_divisible("kv_heads", shape.kv_heads, ranks),
        unless_below("(heads + 2 kv_heads) x head_dim", features(shape), 31),
        unless_countable("tokens x hidden x (heads + 2 kv_heads) x head_dim", qkv_size(shape))}) {
    if (!reason.empty()) return reason;
  }
  return {};
}

Workload tpsp_qkv(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("tpsp/qkv", shape, ranks);
  const Axis axis{.ranks = ranks, .rows = shape.tokens / ranks};
  const Operand x = builder.tensor("X", shape.tokens, shape.hidden);
  const Operand w = builder.weight("Wqkv", weight_of(shape).view.rows / ranks, shape.hidden);
  const Operand qkv = builder.tensor("QKV", shape.tokens, w.tensor.rows);
  builder.inputs([=](std::int32_t rank) {
    const std::int32_t first = rank * axis.rows;
    return std::vector{
        piece_of(tpsp_input(shape, TpspInput::x), x.rows(first, axis.rows), first, 0),
        piece_of(weight_of(shape), w.all(), rank * w.tensor.rows, 0)};
  });
  builder.answers([=](const Source& source, Portion) {
    return std::vector{qkv_answers(qkv.id, shape, ranks, source)};
  });
  builder.stage({.name = "qkv",
                 .axis = axis,
                 .phases = {last_linear(axis, qkv, x, w)},
                 .gather = Gather{x.id},
                 .reduce_scatter = {}});
  builder.output(qkv);
  return builder.take();
}

Workload tpsp_qkv_backward(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("tpsp/qkv", shape, ranks);
  const Axis axis = token_axis(shape, ranks);
  const std::int32_t width = gradient_of(shape).view.cols / ranks;
  const Operand dqkv = builder.tensor("dQKV", shape.tokens, width);
  const Operand x = builder.tensor("X", shape.tokens, shape.hidden);
  const Operand w = builder.weight("Wqkv", width, shape.hidden);
  const Operand partial = builder.tensor("partial", shape.tokens, shape.hidden);
  const Operand dx = builder.tensor("dX", axis.rows, shape.hidden);
  const Operand dw = builder.gradient("dWqkv", w);
  builder.inputs([=](std::int32_t rank) {
    return std::vector{
        piece_of(gradient_of(shape), dqkv.all(), 0, rank * width),
        own_tokens(tpsp_transpose(shape, TpspInput::xt), x.id, axis, rank),
        piece_of(transpose_of(transposed_weight_of(shape)), w.all(), rank * width, 0)};
  });
  builder.answers([=](const Source& source, Portion) {
    return std::vector{
        input_gradient_answer(partial.id, shape, ranks, source),
        gradient_answer(dw.id, transpose_of(gradient_of(shape)), width, sparse_x(shape), source)};
  });
  builder.stage({.name = "dgrad",
                 .axis = axis,
                 .phases = {last_input_gradient(axis, partial, dqkv, w)},
                 .reduce_scatter = ReduceScatter{partial.id, dx.id}});
  builder.stage({.name = "wgrad",
                 .axis = axis,
                 .phases = {weight_gradient_over_rows(axis, dw, dqkv, x)},
                 .gather = Gather{x.id}});
  builder.output(dx);
  builder.output(dw);
  return builder.take();
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// The fused QKV projection. Its weight is stacked by kv group, as Megatron-LM has it: the query
// heads of a group, its key head, its value head; so whole groups lie next to each other and a rank
// holds one run of rows.
#include "suite/workloads/phases.h"
#include "suite/workloads/tpsp.h"
#include "suite/workloads/tpsp_answers.h"

namespace commfuse {
namespace {

/// Beyond the numbers of the inputs that other workloads share.
constexpr std::uint32_t kWeightNumber = 64;

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

}  // namespace commfuse

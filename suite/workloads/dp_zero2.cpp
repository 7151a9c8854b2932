// SPDX-License-Identifier: Apache-2.0
// Weight gradient of a linear layer, summed over the tokens of all ranks and cut over them (ZeRO-2,
// FSDP). The oracle sees it as the product of dY^T and a weight [hidden, tokens of all ranks] whose
// transpose X is: reduced over tokens, a run of them on every rank, like a row-parallel layer over
// its features. That is also what makes exact data exact (data.cpp).
#include "suite/workloads/dp.h"
#include "suite/workloads/dp_size.h"
#include "suite/workloads/phases.h"
#include "suite/workloads/workload_builder.h"

namespace commfuse {
namespace {

/// [ffn, tokens of all ranks], the transpose of dY.
Fill dy_transposed(const Shape& shape, std::int32_t ranks) {
  const std::int32_t tokens = all_tokens(shape, ranks);
  return {.view = {.rows = shape.ffn, .cols = tokens},
          .content = Content::activation,
          .global = static_cast<std::uint32_t>(DpInput::dy),
          .width = shape.ffn,
          .transposed = true};
}

/// [hidden, tokens of all ranks].
Fill x_transposed(const Shape& shape, std::int32_t ranks) {
  const std::int32_t tokens = all_tokens(shape, ranks);
  return {.view = {.rows = shape.hidden, .cols = tokens},
          .content = Content::weight,
          .global = static_cast<std::uint32_t>(DpInput::xt),
          .width = tokens};
}

/// The rank's tokens of a tensor that is given as its transpose.
Fill tokens_of(Fill transpose, const Operand& operand, std::int32_t rank) {
  transpose.transposed = !transpose.transposed;
  return piece_of(transpose, operand.all(), rank * operand.tensor.rows, 0);
}

Answers zero2_answers(TensorId partial, const Shape& shape, std::int32_t ranks,
                      const Source& source) {
  const Fill dy = dy_transposed(shape, ranks);
  const Fill x = x_transposed(shape, ranks);
  const auto tokens_of_ranks = [=](Range asked) {
    return Range{asked.first * shape.tokens, asked.count * shape.tokens};
  };
  const auto part = [=](Range asked) {
    return WeightPart{.global = x,
                      .rows = {0, shape.hidden},
                      .cols = tokens_of_ranks(asked),
                      .pieces = asked.count};
  };
  return {.tensor = partial,
          .exact = true,
          .rows =
              [=](Range asked, std::span<const std::int32_t> rows) {
                return linear(input_rows(dy, tokens_of_ranks(asked), rows, source), part(asked),
                              source, shape.dtype);
              },
          .product =
              [=](Range asked) {
                return Product{dy, part(asked)};
              }};
}

}  // namespace

std::string dp_zero2_unsupported(const Shape& shape, std::int32_t ranks) {
  return dp_unsupported(shape, ranks);
}

Workload dp_zero2(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("dp/zero2", shape, ranks);
  const Axis axis{.ranks = ranks, .rows = shape.ffn / ranks};
  const Operand dy = builder.tensor("dY", shape.tokens, shape.ffn);
  const Operand x = builder.tensor("X", shape.tokens, shape.hidden);
  const Operand partial = builder.tensor("partial", shape.ffn, shape.hidden);
  const Operand result = builder.tensor("dW", axis.rows, shape.hidden);
  builder.inputs([=](std::int32_t rank) {
    return std::vector{tokens_of(dy_transposed(shape, ranks), dy, rank),
                       tokens_of(x_transposed(shape, ranks), x, rank)};
  });
  builder.answers([=](const Source& source, Portion) {
    return std::vector{zero2_answers(partial.id, shape, ranks, source)};
  });
  builder.stage({.name = "zero2",
                 .axis = axis,
                 .phases = {last_weight_gradient(axis, partial, dy, x)},
                 .gather = {},
                 .reduce_scatter = ReduceScatter{partial.id, result.id}});
  builder.output(result);
  return builder.take();
}

}  // namespace commfuse

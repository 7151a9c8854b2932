// SPDX-License-Identifier: Apache-2.0
// Forward of a linear layer whose parameters are cut over ranks (ZeRO-3, FSDP). W is a gather
// buffer, not one of the workload's weights: it arrives anew in every iteration, and an executor
// may prepare nothing of it beforehand.
#include "suite/workloads/dp.h"
#include "suite/workloads/dp_size.h"
#include "suite/workloads/phases.h"
#include "suite/workloads/workload_builder.h"

namespace commfuse {
namespace {

Fill input_of(DpInput input, Content content, std::int32_t rows, std::int32_t cols) {
  return {.view = {.rows = rows, .cols = cols},
          .content = content,
          .global = static_cast<std::uint32_t>(input),
          .width = cols};
}

/// Rows of Y are the rank's tokens, all features.
Answers zero3_answers(TensorId y, const Shape& shape, const Fill& x, const Fill& w,
                      const Source& source) {
  const WeightPart whole_weight{.global = w, .rows = {0, shape.ffn}, .cols = {0, shape.hidden}};
  return {.tensor = y,
          .exact = true,
          .rows =
              [=](Range asked, std::span<const std::int32_t> rows) {
                std::vector<std::int32_t> tokens(rows.begin(), rows.end());
                for (std::int32_t& token : tokens) token += asked.first * shape.tokens;
                return linear(input_rows(x, {0, shape.hidden}, tokens, source), whole_weight,
                              source, shape.dtype);
              },
          .product =
              [=](Range asked) {
                return Product{x, whole_weight, asked.first * shape.tokens};
              }};
}

}  // namespace

std::string dp_zero3_unsupported(const Shape& shape, std::int32_t ranks) {
  return dp_unsupported(shape, ranks);
}

Workload dp_zero3(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("dp/zero3", shape, ranks);
  const Axis axis{.ranks = ranks, .rows = shape.ffn / ranks};
  const Operand x = builder.tensor("X", shape.tokens, shape.hidden);
  const Operand w = builder.tensor("W", shape.ffn, shape.hidden);
  const Operand y = builder.tensor("Y", shape.tokens, shape.ffn);
  const Fill all_x =
      input_of(DpInput::x, Content::activation, all_tokens(shape, ranks), shape.hidden);
  const Fill all_w = input_of(DpInput::w, Content::weight, shape.ffn, shape.hidden);
  builder.inputs([=](std::int32_t rank) {
    const std::int32_t first = rank * axis.rows;
    return std::vector{piece_of(all_x, x.all(), rank * shape.tokens, 0),
                       piece_of(all_w, w.rows(first, axis.rows), first, 0)};
  });
  builder.answers([=](const Source& source, Portion) {
    return std::vector{zero3_answers(y.id, shape, all_x, all_w, source)};
  });
  builder.stage({.name = "zero3",
                 .axis = axis,
                 .phases = {last_linear_by_features(axis, y, x, w)},
                 .gather = Gather{w.id},
                 .reduce_scatter = {}});
  builder.output(y);
  return builder.take();
}

}  // namespace commfuse

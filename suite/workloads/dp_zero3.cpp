// SPDX-License-Identifier: Apache-2.0
// Forward of linear layers whose parameters are cut over ranks (ZeRO-3, FSDP): each weight is
// gathered before it is used, and the gather of the next needs nothing of what is computed, so it
// can run under that. W is a gather buffer, not one of the workload's weights: it arrives anew in
// every iteration, and an executor may prepare nothing of it beforehand.
#include "suite/workloads/dp.h"
#include "suite/workloads/dp_gradients.h"
#include "suite/workloads/dp_layers.h"
#include "suite/workloads/phases.h"
#include "suite/workloads/workload_builder.h"

namespace commfuse {
namespace {

/// Sums of exact data stay below what bf16 holds.
constexpr std::int32_t kLargestSum = 256;

std::vector<Fill> parameters(const Shape& shape) {
  const std::vector<DpLinear> linears = dp_linears(shape);
  std::vector<Fill> weights;
  for (std::size_t i = 0; i < linears.size(); ++i) {
    weights.push_back(dp_input(DpInput::w, i, Content::weight, linears[i].out, linears[i].in));
  }
  return dp_chained(std::move(weights), kLargestSum);
}

/// Rows of the last Y are the rank's tokens.
Answers zero3_answers(TensorId y, const Shape& shape, const Fill& x,
                      const std::vector<Fill>& weights, const Source& source) {
  return {
      .tensor = y,
      .exact = true,
      .rows =
          [=](Range asked, std::span<const std::int32_t> rows) {
            std::vector<std::int32_t> tokens(rows.begin(), rows.end());
            for (std::int32_t& token : tokens) token += asked.first * shape.tokens;
            Rows values = input_rows(x, {0, x.view.cols}, tokens, source);
            for (const Fill& weight : weights) {
              values = linear(
                  values,
                  {.global = weight, .rows = {0, weight.view.rows}, .cols = {0, weight.view.cols}},
                  source, shape.dtype);
            }
            return values;
          },
      .product = {}};
}

}  // namespace

std::string dp_zero3_unsupported(const Shape& shape, std::int32_t ranks) {
  return dp_unsupported(shape, ranks);
}

Workload dp_zero3(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("dp/zero3", shape, ranks);
  const std::vector<DpLinear> linears = dp_linears(shape);
  const std::vector<Fill> weights = parameters(shape);
  const Fill all_x =
      dp_input(DpInput::x, 0, Content::activation, all_tokens(shape, ranks), shape.hidden);
  const Operand x = builder.tensor("X", shape.tokens, shape.hidden);
  std::vector<Operand> buffers;
  Operand from = x;
  for (const DpLinear& map : linears) {
    const Axis axis{.ranks = ranks, .rows = map.out / ranks};
    const Operand w = builder.tensor("W_" + map.name, map.out, map.in);
    const Operand y = builder.tensor("Y_" + map.name, shape.tokens, map.out);
    builder.stage({.name = map.name,
                   .axis = axis,
                   .phases = {last_linear_by_features(axis, y, from, w)},
                   .gather = Gather{w.id},
                   .reduce_scatter = {}});
    buffers.push_back(w);
    from = y;
  }
  builder.inputs([=](std::int32_t rank) {
    std::vector<Fill> fills{piece_of(all_x, x.all(), rank * shape.tokens, 0)};
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const std::int32_t rows = linears[i].out / ranks;
      fills.push_back(piece_of(weights[i], buffers[i].rows(rank * rows, rows), rank * rows, 0));
    }
    return fills;
  });
  builder.answers([=](const Source& source, Portion) {
    return std::vector{zero3_answers(from.id, shape, all_x, weights, source)};
  });
  builder.output(from);
  return builder.take();
}

Workload dp_zero3_backward(const Shape& shape, std::int32_t ranks) {
  return gradients("dp/zero3", shape, ranks, GradientSum::cut, WeightsFrom::gathered);
}

}  // namespace commfuse

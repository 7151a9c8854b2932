// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/tpsp_answers.h"

namespace commfuse {
namespace {

using RowNumbers = std::span<const std::int32_t>;

Rows whole_input(const Shape& shape, TpspInput input, RowNumbers rows, const Source& source) {
  const Fill global = tpsp_input(shape, input);
  return input_rows(global, {0, global.view.cols}, rows, source);
}

/// activation(x U^T), the columns of the ranks asked for.
Rows mlp_hidden(const Rows& x, const Shape& shape, const MlpWeights& weights, std::int32_t ranks,
                Range asked, const Source& source) {
  const auto times = [&](const Fill& weight) {
    return linear(x, column_parallel(weight, asked, ranks), source, shape.dtype);
  };
  if (shape.activation == Activation::swiglu) {
    return swiglu(times(weights.gate), times(weights.up), shape.dtype);
  }
  return activate(times(weights.up), shape.activation, shape.dtype);
}

}  // namespace

Range share_of(Range ranks_asked, std::int32_t total, std::int32_t ranks) {
  const std::int32_t width = total / ranks;
  return {ranks_asked.first * width, ranks_asked.count * width};
}

WeightPart column_parallel(const Fill& weight, Range ranks_asked, std::int32_t ranks) {
  return {.global = weight,
          .rows = share_of(ranks_asked, weight.view.rows, ranks),
          .cols = {0, weight.view.cols}};
}

WeightPart column_parallel(const Shape& shape, TpspInput weight, Range ranks_asked,
                           std::int32_t ranks) {
  return column_parallel(tpsp_input(shape, weight), ranks_asked, ranks);
}

WeightPart row_parallel(const Fill& weight, Range ranks_asked, std::int32_t ranks) {
  return {.global = weight,
          .rows = {0, weight.view.rows},
          .cols = share_of(ranks_asked, weight.view.cols, ranks),
          .pieces = ranks_asked.count};
}

WeightPart row_parallel(const Shape& shape, TpspInput weight, Range ranks_asked,
                        std::int32_t ranks) {
  return row_parallel(tpsp_input(shape, weight), ranks_asked, ranks);
}

MlpWeights mlp_weights(const Shape& shape) {
  return {tpsp_input(shape, TpspInput::up), tpsp_input(shape, TpspInput::gate),
          tpsp_input(shape, TpspInput::down)};
}

Rows mlp_rows(const Rows& x, const Shape& shape, const MlpWeights& weights, std::int32_t ranks,
              Range ranks_asked, const Source& source) {
  return linear(mlp_hidden(x, shape, weights, ranks, ranks_asked, source),
                row_parallel(weights.down, ranks_asked, ranks), source, shape.dtype);
}

Answers ag_gemm_answers(TensorId h, const Shape& shape, std::int32_t ranks, const Source& source) {
  const auto weight = [=](Range asked) {
    return column_parallel(shape, TpspInput::up, asked, ranks);
  };
  return {.tensor = h,
          .exact = true,
          .rows =
              [=](Range asked, RowNumbers rows) {
                return linear(whole_input(shape, TpspInput::x, rows, source), weight(asked), source,
                              shape.dtype);
              },
          .product =
              [=](Range asked) {
                return Product{tpsp_input(shape, TpspInput::x), weight(asked)};
              }};
}

Answers gemm_rs_answers(TensorId partial, const Shape& shape, std::int32_t ranks,
                        const Source& source) {
  const Fill a = tpsp_input(shape, TpspInput::a);
  const auto weight = [=](Range asked) {
    return row_parallel(shape, TpspInput::down, asked, ranks);
  };
  return {.tensor = partial,
          .exact = true,
          .rows =
              [=](Range asked, RowNumbers rows) {
                return linear(input_rows(a, share_of(asked, shape.ffn, ranks), rows, source),
                              weight(asked), source, shape.dtype);
              },
          .product =
              [=](Range asked) {
                return Product{a, weight(asked)};
              }};
}

Answers mlp_answers(TensorId partial, const Shape& shape, std::int32_t ranks,
                    const Source& source) {
  return {.tensor = partial,
          .exact = shape.activation == Activation::relu,
          .rows =
              [=](Range asked, RowNumbers rows) {
                return mlp_rows(whole_input(shape, TpspInput::x, rows, source), shape,
                                mlp_weights(shape), ranks, asked, source);
              },
          .product = {}};
}

}  // namespace commfuse

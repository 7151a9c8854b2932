// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/tpsp_answers.h"

namespace commfuse {
namespace {

using RowNumbers = std::span<const std::int32_t>;

Rows whole_input(const Shape& shape, TpspInput input, RowNumbers rows, const Source& source) {
  const Fill global = tpsp_input(shape, input);
  return input_rows(global, {0, global.view.cols}, rows, source);
}

/// activation(X U^T), the columns of the ranks asked for.
Rows mlp_hidden(const Shape& shape, std::int32_t ranks, Range asked, RowNumbers rows,
                const Source& source) {
  const Rows x = whole_input(shape, TpspInput::x, rows, source);
  const auto project = [&](TpspInput weight) {
    return linear(x, column_parallel(shape, weight, asked, ranks), source, shape.dtype);
  };
  if (shape.activation == Activation::swiglu) {
    return swiglu(project(TpspInput::gate), project(TpspInput::up), shape.dtype);
  }
  return activate(project(TpspInput::up), shape.activation, shape.dtype);
}

}  // namespace

Range share_of(Range ranks_asked, std::int32_t total, std::int32_t ranks) {
  const std::int32_t width = total / ranks;
  return {ranks_asked.first * width, ranks_asked.count * width};
}

WeightPart column_parallel(const Shape& shape, TpspInput weight, Range ranks_asked,
                           std::int32_t ranks) {
  const Fill global = tpsp_input(shape, weight);
  return {.global = global,
          .rows = share_of(ranks_asked, global.view.rows, ranks),
          .cols = {0, global.view.cols}};
}

WeightPart row_parallel(const Shape& shape, TpspInput weight, Range ranks_asked,
                        std::int32_t ranks) {
  const Fill global = tpsp_input(shape, weight);
  return {.global = global,
          .rows = {0, global.view.rows},
          .cols = share_of(ranks_asked, global.view.cols, ranks),
          .pieces = ranks_asked.count};
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
                return linear(mlp_hidden(shape, ranks, asked, rows, source),
                              row_parallel(shape, TpspInput::down, asked, ranks), source,
                              shape.dtype);
              },
          .product = {}};
}

}  // namespace commfuse

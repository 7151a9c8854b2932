// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/tpsp_backward_answers.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "suite/workloads/tpsp_answers.h"

namespace commfuse {
namespace {

using RowNumbers = std::span<const std::int32_t>;

bool is_gated(const Shape& shape) { return shape.activation == Activation::swiglu; }

/// dH = activation'(H) (dY D) for some tokens and features: of the gate in the left half and of up
/// in the right one, where there is a gate.
Rows hidden_gradient(const Shape& shape, const Rows& dy, RowNumbers tokens, Range features,
                     const Source& source) {
  const WeightPart down{
      .global = tpsp_input(shape, TpspInput::up), .rows = features, .cols = {0, shape.hidden}};
  const Rows da = linear(dy, down, source, shape.dtype);
  const auto saved = [&](TpspInput input) {
    return input_rows(tpsp_input(shape, input), features, tokens, source);
  };
  const Rows up = saved(TpspInput::h);
  const Rows h = is_gated(shape) ? side_by_side(saved(TpspInput::h_gate), up) : up;
  return activation_gradient(da, h, shape.activation, shape.dtype);
}

Rows columns_of(const Rows& from, Range cols) {
  Rows part(from.count, cols.count);
  for (std::int32_t row = 0; row < from.count; ++row) {
    const auto copy = [&](const std::vector<double>& source, std::vector<double>& target) {
      std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(from.at(row, cols.first)),
                  cols.count, target.begin() + static_cast<std::ptrdiff_t>(part.at(row, 0)));
    };
    copy(from.value, part.value);
    copy(from.error, part.error);
    copy(from.scale, part.scale);
  }
  return part;
}

/// Rows of dH^T as a rank numbers them, over its tokens; a block of tokens at a time.
Rows hidden_gradient_rows(const Shape& shape, const MlpShare& share, RowNumbers rows,
                          const Source& source) {
  constexpr std::int32_t kTokens = 256;
  const std::int32_t width = share.features.count;
  Rows result(static_cast<std::int32_t>(rows.size()), share.tokens.count);
  for (std::int32_t first = 0; first < result.cols; first += kTokens) {
    std::vector<std::int32_t> tokens(
        static_cast<std::size_t>(std::min(kTokens, result.cols - first)));
    std::iota(tokens.begin(), tokens.end(), share.tokens.first + first);
    const Rows dy = input_rows(tpsp_input(shape, TpspInput::x), {0, shape.hidden}, tokens, source);
    for (std::int32_t i = 0; i < result.count; ++i) {
      const std::int32_t row = rows[static_cast<std::size_t>(i)];
      const Range feature{share.features.first + row % width, 1};
      const Rows column = hidden_gradient(shape, dy, tokens, feature, source);
      const std::int32_t half = row / width;  // of SwiGLU: the gate, then up
      for (std::int32_t token = 0; token < column.count; ++token) {
        const std::size_t to = result.at(i, first + token);
        result.value[to] = column.value[column.at(token, half)];
        result.error[to] = column.error[column.at(token, half)];
        result.scale[to] = column.scale[column.at(token, half)];
      }
    }
  }
  return result;
}

}  // namespace

void add(Rows& sum, const Rows& term) {
  const auto into = [](std::vector<double>& target, const std::vector<double>& more) {
    std::ranges::transform(target, more, target.begin(), std::plus<>());
  };
  into(sum.value, term.value);
  into(sum.error, term.error);
  into(sum.scale, term.scale);
}

SparseOperand sparse_x(const Shape& shape) {
  return [=](Range) {
    return WeightPart{.global = tpsp_input(shape, TpspInput::xt),
                      .rows = {0, shape.hidden},
                      .cols = {0, shape.tokens}};
  };
}

SparseOperand sparse_a(const Shape& shape, std::int32_t ranks) {
  return [=](Range asked) {
    return WeightPart{.global = tpsp_input(shape, TpspInput::at),
                      .rows = share_of(asked, shape.ffn, ranks),
                      .cols = {0, shape.tokens}};
  };
}

Answers gradient_answer(TensorId tensor, const Fill& dy_transposed, std::int32_t features,
                        const SparseOperand& xt, const Source& source) {
  return {.tensor = tensor,
          .exact = true,
          .rows =
              [=](Range asked, RowNumbers rows) {
                std::vector<std::int32_t> numbers(rows.begin(), rows.end());
                for (std::int32_t& number : numbers) number += asked.first * features;
                const WeightPart x = xt(asked);
                return linear(input_rows(dy_transposed, x.cols, numbers, source), x, source,
                              DType::f32);
              },
          .product =
              [=](Range asked) {
                return Product{dy_transposed, xt(asked), asked.first * features};
              }};
}

Answers mlp_input_gradient(TensorId partial, const Shape& shape, std::int32_t ranks,
                           const Source& source) {
  return {.tensor = partial,
          .exact = shape.activation == Activation::relu,
          .rows = [=](Range asked, RowNumbers rows) {
            const Range features = share_of(asked, shape.ffn, ranks);
            const Rows dy =
                input_rows(tpsp_input(shape, TpspInput::x), {0, shape.hidden}, rows, source);
            const Rows dh = hidden_gradient(shape, dy, rows, features, source);
            const auto product = [&](TpspInput weight, std::int32_t first) {
              return linear(columns_of(dh, {first, features.count}),
                            row_parallel(shape, weight, asked, ranks), source, shape.dtype);
            };
            if (!is_gated(shape)) return product(TpspInput::down, 0);
            Rows dx = product(TpspInput::gate_down, 0);
            add(dx, product(TpspInput::down, features.count));
            return dx;
          }};
}

MlpShares cut_by_features(const Shape& shape, std::int32_t ranks) {
  return [=](std::int32_t rank) {
    return MlpShare{.tokens = {0, shape.tokens}, .features = share_of({rank, 1}, shape.ffn, ranks)};
  };
}

MlpShares cut_by_tokens(const Shape& shape, std::int32_t ranks) {
  return [=](std::int32_t rank) {
    return MlpShare{.tokens = share_of({rank, 1}, shape.tokens, ranks), .features = {0, shape.ffn}};
  };
}

Answers mlp_up_gradient(TensorId du, const Shape& shape, const MlpShares& shares,
                        const Source& source) {
  return {.tensor = du,
          .exact = shape.activation == Activation::relu,
          .rows = [=, xt = sparse_x(shape)](Range asked, RowNumbers rows) {
            const MlpShare share = shares(asked.first);
            WeightPart x = xt(asked);
            x.cols = share.tokens;
            return linear(hidden_gradient_rows(shape, share, rows, source), x, source, DType::f32);
          }};
}

}  // namespace commfuse

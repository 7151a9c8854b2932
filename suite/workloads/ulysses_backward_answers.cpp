// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/ulysses_backward_answers.h"

#include <algorithm>

#include "suite/workloads/layer_answers.h"
#include "suite/workloads/layer_gradients.h"

namespace commfuse {
namespace {

using RowNumbers = std::span<const std::int32_t>;

void copy_element(const Rows& from, std::size_t at, Rows& to, std::size_t target) {
  to.value[target] = from.value[at];
  to.error[target] = from.error[at];
  to.scale[target] = from.scale[at];
}

/// Features of blocks that lie below each other, each with its share of them, for some tokens.
Rows features_of_blocks(const Fill& blocks, const Axis& axis, Range features, RowNumbers tokens,
                        const Source& source) {
  const std::int32_t share = blocks.view.cols;
  Rows result(static_cast<std::int32_t>(tokens.size()), features.count);
  for (std::int32_t feature = features.first; feature < features.first + features.count;) {
    const std::int32_t block = feature / share;
    const std::int32_t stop = std::min((block + 1) * share, features.first + features.count);
    std::vector<std::int32_t> rows(tokens.begin(), tokens.end());
    for (std::int32_t& row : rows) row += block * axis.rows;
    const Rows part = input_rows(blocks, {feature - block * share, stop - feature}, rows, source);
    for (std::int32_t i = 0; i < part.count; ++i) {
      for (std::int32_t j = 0; j < part.cols; ++j) {
        copy_element(part, part.at(i, j), result, result.at(i, feature - features.first + j));
      }
    }
    feature = stop;
  }
  return result;
}

/// The rows `features` of dY^T over a rank's tokens; heads are computed whole.
Rows feature_rows(const TokenGradients& gradients, std::int32_t rank, std::int32_t tokens,
                  std::int32_t head_dim, RowNumbers features) {
  Rows result(static_cast<std::int32_t>(features.size()), tokens);
  const std::vector<std::int32_t> all = numbers_from(0, tokens);
  std::int32_t loaded = -1;
  Rows head(0, 0);
  for (std::int32_t i = 0; i < result.count; ++i) {
    const std::int32_t feature = features[static_cast<std::size_t>(i)];
    if (feature / head_dim != loaded) {
      loaded = feature / head_dim;
      head = gradients(rank, {loaded * head_dim, head_dim}, all);
    }
    for (std::int32_t token = 0; token < tokens; ++token) {
      copy_element(head, head.at(token, feature % head_dim), result, result.at(i, token));
    }
  }
  return result;
}

/// The transpose of a weight, reduced over all of its features in a piece for each rank. It is one
/// of three whose sums are added up.
WeightPart one_of_three(const Shape& shape, TpspInput transposed, std::int32_t ranks) {
  const Fill global = tpsp_input(shape, transposed);
  return {.global = global,
          .rows = {0, global.view.rows},
          .cols = {0, global.view.cols},
          .pieces = ranks,
          .adds = 2 * ranks};
}

Answers projection_input_gradient(TensorId dx, const Shape& shape, const Axis& axis, bool exact,
                                  const SentGradients& gradients, const Source& source) {
  return {.tensor = dx, .exact = exact, .rows = [=](Range asked, RowNumbers rows) {
            const auto product = [&](const TokenGradients& dy, TpspInput transposed) {
              const WeightPart weight = one_of_three(shape, transposed, axis.ranks);
              return linear(dy(asked.first, weight.cols, rows), weight, source, shape.dtype);
            };
            Rows sum = product(gradients.q, TpspInput::out);
            add(sum, product(gradients.k, TpspInput::wkt));
            add(sum, product(gradients.v, TpspInput::wvt));
            return sum;
          }};
}

/// dY^T X over a rank's tokens.
Answers projection_weight_gradient(TensorId dw, const Shape& shape, const Axis& axis, bool exact,
                                   const TokenGradients& dy, TpspInput transposed,
                                   const Source& source) {
  const SparseOperand xt = own_tokens_of(shape, transposed, axis);
  return {.tensor = dw, .exact = exact, .rows = [=](Range asked, RowNumbers rows) {
            return linear(feature_rows(dy, asked.first, axis.rows, shape.head_dim, rows), xt(asked),
                          source, DType::f32);
          }};
}

}  // namespace

SentGradients given_gradients(const Shape& shape, const Axis& axis, const Source& source) {
  const auto given = [=](TpspInput input) -> TokenGradients {
    return [=](std::int32_t rank, Range features, RowNumbers tokens) {
      return input_rows(tpsp_input(shape, input), features, tokens_of(axis, rank, tokens), source);
    };
  };
  return {given(TpspInput::dq), given(TpspInput::dk), given(TpspInput::dv)};
}

SentGradients stand_in_gradients(const ReceivedGradients& received, const Axis& axis,
                                 const Source& source) {
  const auto stand_in = [=](const Operand& blocks) -> TokenGradients {
    return [=](std::int32_t rank, Range features, RowNumbers tokens) {
      return features_of_blocks(stand_in_data(blocks.id, blocks.tensor, axis.ranks, rank), axis,
                                features, tokens, source);
    };
  };
  return {stand_in(received.q), stand_in(received.k), stand_in(received.v)};
}

std::vector<Answers> projection_gradient_answers(const Shape& shape,
                                                 const ProjectionGradients& operands,
                                                 const Axis& axis, bool exact,
                                                 const SentGradients& gradients,
                                                 const Source& source) {
  const auto weight = [&](const Operand& dw, const TokenGradients& dy) {
    return projection_weight_gradient(dw.id, shape, axis, exact, dy, operands.xt, source);
  };
  return {projection_input_gradient(operands.dx.id, shape, axis, exact, gradients, source),
          weight(operands.dwq, gradients.q), weight(operands.dwk, gradients.k),
          weight(operands.dwv, gradients.v)};
}

SparseOperand own_tokens_of(const Shape& shape, TpspInput transposed, const Axis& axis) {
  return [=](Range asked) {
    const Fill global = tpsp_input(shape, transposed);
    return WeightPart{.global = global,
                      .rows = {0, global.view.rows},
                      .cols = {asked.first * axis.rows, axis.rows}};
  };
}

}  // namespace commfuse

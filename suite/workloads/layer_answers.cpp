// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/layer_answers.h"

namespace commfuse {
namespace {

/// A mean of values is small; what the gate multiplies with is too, unless it is of the order of 1.
constexpr std::int32_t kOutBoost = 3;
constexpr std::int32_t kUpBoost = 2;
constexpr std::int32_t kDownBoost = 1;

Fill scaled(Fill weight, std::int32_t boost) {
  weight.hits = 1;
  weight.boost = boost;
  return weight;
}

}  // namespace

LayerInputs layer_inputs(const Shape& shape) {
  const ProjectionWeights projections = projection_weights(shape);
  const MlpWeights mlp = mlp_weights(shape);
  return {
      .gamma_attention = tpsp_input(shape, TpspInput::gamma_attention),
      .projections = {scaled(projections.q, 0), scaled(projections.k, 0), scaled(projections.v, 0)},
      .out = scaled(tpsp_input(shape, TpspInput::out), kOutBoost),
      .gamma_mlp = tpsp_input(shape, TpspInput::gamma_mlp),
      .mlp = {scaled(mlp.up, kUpBoost), scaled(mlp.gate, kUpBoost), scaled(mlp.down, kDownBoost)}};
}

Rows normed(const Rows& x, const Fill& gamma, const Source& source, DType dtype) {
  return norm(x, all_rows(gamma, {0, x.cols}, source), dtype);
}

TokenRows attention_norm(const Shape& shape, const Source& source) {
  return [=, x = input_tokens(shape, source)](std::span<const std::int32_t> tokens) {
    return normed(x(tokens), layer_inputs(shape).gamma_attention, source, shape.dtype);
  };
}

Rows with_mlp(const Shape& shape, const Rows& y, std::int32_t mlp_ranks, const Source& source) {
  const LayerInputs inputs = layer_inputs(shape);
  const Rows yn = normed(y, inputs.gamma_mlp, source, shape.dtype);
  return residual(y, mlp_rows(yn, shape, inputs.mlp, mlp_ranks, {0, mlp_ranks}, source),
                  shape.dtype);
}

Answers layer_answer(const Shape& shape, TensorId z, const Axis& axis, std::int32_t mlp_ranks,
                     const Source& source) {
  const LayerInputs inputs = layer_inputs(shape);
  const AttentionInputs heads =
      projected_inputs(shape, inputs.projections, attention_norm(shape, source), source);
  return {.tensor = z, .rows = [=](Range asked, std::span<const std::int32_t> rows) {
            const std::vector<std::int32_t> tokens = tokens_of(axis, asked.first, rows);
            const Rows attended =
                linear(attend(shape, heads, {0, shape.heads}, tokens),
                       row_parallel(inputs.out, {0, axis.ranks}, axis.ranks), source, shape.dtype);
            const Rows y = residual(input_tokens(shape, source)(tokens), attended, shape.dtype);
            return with_mlp(shape, y, mlp_ranks, source);
          }};
}

std::vector<std::int32_t> tokens_of(const Axis& axis, std::int32_t rank,
                                    std::span<const std::int32_t> own) {
  std::vector<std::int32_t> tokens(own.begin(), own.end());
  for (std::int32_t& token : tokens) token += rank * axis.rows;
  return tokens;
}

}  // namespace commfuse

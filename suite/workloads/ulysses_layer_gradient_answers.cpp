// SPDX-License-Identifier: Apache-2.0
// dY is of the own tokens and needs nothing from others, so that all before the block is the same
// whether something moves or not.
#include <algorithm>

#include "suite/workloads/layer_answers.h"
#include "suite/workloads/layer_gradients.h"
#include "suite/workloads/tpsp_backward_answers.h"
#include "suite/workloads/ulysses_layer_gradients.h"

namespace commfuse {
namespace {

using RowNumbers = std::span<const std::int32_t>;

/// What reaches the norm of the MLP; features are whole.
TokenRows mlp_norm_gradient(const Shape& shape, TensorId dyn, const Source& source) {
  const Answers mlp = mlp_input_gradient(dyn, shape, 1, source);
  return computed_once([=](RowNumbers tokens) { return mlp.rows({0, 1}, tokens); }, shape.hidden);
}

/// What reaches Y.
TokenRows block_output_gradient(const Shape& shape, const TokenRows& dyn, const Source& source) {
  return computed_once(
      [=](RowNumbers tokens) {
        const Rows dz = input_tokens(shape, source)(tokens);
        return through_norm(shape, kMlpNorm, dyn(tokens), dz, tokens, source);
      },
      shape.hidden);
}

/// What reaches the norm of attention, for some tokens of one rank.
TokenRows attention_norm_gradient(const Shape& shape, const Answers& dxn, const Axis& axis) {
  return computed_once(
      [=](RowNumbers tokens) {
        const std::int32_t rank = tokens.front() / axis.rows;
        std::vector<std::int32_t> own(tokens.begin(), tokens.end());
        for (std::int32_t& token : own) token -= rank * axis.rows;
        return dxn.rows({rank, 1}, own);
      },
      shape.hidden);
}

Answers input_gradient_of_layer(TensorId dx, const Shape& shape, const Axis& axis,
                                const TokenRows& dxn, const TokenRows& dy, const Source& source) {
  return {.tensor = dx, .rows = [=](Range asked, RowNumbers rows) {
            const std::vector<std::int32_t> tokens = tokens_of(axis, asked.first, rows);
            return through_norm(shape, kAttentionNorm, dxn(tokens), dy(tokens), tokens, source);
          }};
}

/// One op sums the own tokens.
Answers own_gamma_gradient(TensorId dgamma, const Shape& shape, const Axis& axis,
                           const SavedNorm& norm, const TokenRows& dn, const Source& source) {
  return {.tensor = dgamma, .rows = [=](Range asked, RowNumbers) {
            const std::vector<std::int32_t> tokens =
                numbers_from(asked.first * axis.rows, axis.rows);
            return gamma_of_norm(shape, norm, dn(tokens), tokens, 1, source);
          }};
}

/// dWo = dY^T O over the own tokens.
Answers out_weight_gradient(TensorId dwo, const Shape& shape, const Axis& axis, const TokenRows& dy,
                            const Source& source) {
  const SparseOperand ot = own_tokens_of(shape, TpspInput::ot, axis);
  return {.tensor = dwo, .rows = [=](Range asked, RowNumbers rows) {
            const Rows own = dy(numbers_from(asked.first * axis.rows, axis.rows));
            return linear(transposed_columns(own, rows), ot(asked), source, DType::f32);
          }};
}

}  // namespace

std::vector<Answers> ulysses_layer_gradient_answers(const Shape& shape,
                                                    const UlyssesLayerGradients& layer,
                                                    const Axis& axis, const Source& source,
                                                    Portion portion) {
  const TokenRows dyn = mlp_norm_gradient(shape, layer.mlp.partial.id, source);
  const TokenRows dy = block_output_gradient(shape, dyn, source);
  const BlockStart start{.dy = dy, .exact = false, .saved = saved_attention(shape, source)};
  std::vector<Answers> answers =
      block_gradient_answers(shape, layer.block, axis, start, source, portion);
  const TokenRows dxn = attention_norm_gradient(
      shape, *std::ranges::find(answers, layer.block.projections.dx.id, &Answers::tensor), axis);
  answers.push_back(out_weight_gradient(layer.block.out.dwo.id, shape, axis, dy, source));
  answers.push_back(gradient_answer(layer.mlp.dd.id, tpsp_transpose(shape, TpspInput::x), 0,
                                    own_tokens_of(shape, TpspInput::at, axis), source));
  answers.push_back(
      mlp_up_gradient(layer.mlp.du.id, shape, cut_by_tokens(shape, axis.ranks), source));
  answers.push_back(own_gamma_gradient(layer.dgamma_mlp.id, shape, axis, kMlpNorm, dyn, source));
  answers.push_back(
      own_gamma_gradient(layer.dgamma_attention.id, shape, axis, kAttentionNorm, dxn, source));
  answers.push_back(input_gradient_of_layer(layer.dx.id, shape, axis, dxn, dy, source));
  return answers;
}

}  // namespace commfuse

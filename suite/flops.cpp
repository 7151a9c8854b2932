// SPDX-License-Identifier: Apache-2.0
#include "suite/flops.h"

namespace commfuse {
namespace {

std::int64_t passes(Pass pass) { return pass == Pass::forward ? 1 : 2; }

std::int64_t projection_weights(const Shape& shape) {
  return (2 * std::int64_t{shape.heads} + 2 * std::int64_t{shape.kv_heads}) * shape.head_dim *
         shape.hidden;
}

std::int64_t mlp_weights(const Shape& shape) {
  return (shape.activation == Activation::swiglu ? 3 : 2) * std::int64_t{shape.hidden} * shape.ffn;
}

CountedFlops alike(std::int64_t flops) { return {flops, flops, flops}; }

/// Forward, of one token. On average a token sees (T + 1) / 2, T or T / 2 keys, so that twice the
/// keys are integers.
CountedFlops attention_of_token(const Shape& shape) {
  const std::int64_t tokens = shape.tokens;
  const std::int64_t a_half_key = 2 * std::int64_t{shape.heads} * shape.head_dim;
  return {a_half_key * (shape.causal ? tokens + 1 : 2 * tokens), a_half_key * 2 * tokens,
          a_half_key * tokens};
}

}  // namespace

std::int64_t layer_weights(const Shape& shape) {
  return projection_weights(shape) + mlp_weights(shape);
}

LayerFlops layer_flops(const Shape& shape, Pass pass) {
  const std::int64_t tokens = passes(pass) * shape.tokens;
  return {.projections = alike(2 * projection_weights(shape) * tokens),
          .attention = tokens * attention_of_token(shape),
          .mlp = alike(2 * mlp_weights(shape) * tokens)};
}

std::int64_t executed_layer_flops(const Shape& shape, Pass pass) {
  const LayerFlops model = layer_flops(shape, pass);
  const std::int64_t recomputed = pass == Pass::forward ? 0 : model.attention.exact / 4;
  return model.total().exact + recomputed;
}

CountedFlops layers_flops_per_token(const Shape& shape, Pass pass) {
  const CountedFlops layer = alike(2 * layer_weights(shape)) + attention_of_token(shape);
  return passes(pass) * std::int64_t{shape.layers} * layer;
}

}  // namespace commfuse

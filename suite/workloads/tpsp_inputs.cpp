// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/tpsp_inputs.h"

namespace commfuse {
namespace {

Fill sized(TpspInput input, Content content, std::int32_t rows, std::int32_t cols) {
  return {.view = {.rows = rows, .cols = cols},
          .content = content,
          .global = static_cast<std::uint32_t>(input),
          .width = cols};
}

/// Of no reduction: below 1 where random, and signs where exact.
Fill gamma(TpspInput input, std::int32_t cols) {
  Fill fill = sized(input, Content::weight, 1, cols);
  fill.width = 1;
  return fill;
}

Fill heads_of(TpspInput input, Content content, const Shape& shape, std::int32_t heads) {
  Fill fill = sized(input, content, shape.tokens, heads * shape.head_dim);
  fill.width = shape.head_dim;
  fill.tokens = shape.tokens;
  fill.causal = shape.causal;
  return fill;
}

}  // namespace

Fill tpsp_input(const Shape& shape, TpspInput input) {
  switch (input) {
    case TpspInput::x:
    case TpspInput::norm_attention:
    case TpspInput::norm_mlp:
      return sized(input, Content::activation, shape.tokens, shape.hidden);
    case TpspInput::a:
    case TpspInput::h:
    case TpspInput::h_gate:
      return sized(input, Content::activation, shape.tokens, shape.ffn);
    case TpspInput::up:
    case TpspInput::gate:
      return sized(input, Content::weight, shape.ffn, shape.hidden);
    case TpspInput::down:
    case TpspInput::gate_down:
      return sized(input, Content::weight, shape.hidden, shape.ffn);
    case TpspInput::q:
      return heads_of(input, Content::query, shape, shape.heads);
    case TpspInput::k:
      return heads_of(input, Content::key, shape, shape.kv_heads);
    case TpspInput::v:
      return heads_of(input, Content::activation, shape, shape.kv_heads);
    case TpspInput::out:
      return sized(input, Content::weight, shape.hidden, shape.heads * shape.head_dim);
    case TpspInput::wq:
      return sized(input, Content::weight, shape.heads * shape.head_dim, shape.hidden);
    case TpspInput::xt:
    case TpspInput::xnt:
      return sized(input, Content::weight, shape.hidden, shape.tokens);
    case TpspInput::at:
      return sized(input, Content::weight, shape.ffn, shape.tokens);
    case TpspInput::dq:
    case TpspInput::d_o:
      return sized(input, Content::activation, shape.tokens, shape.heads * shape.head_dim);
    case TpspInput::dk:
    case TpspInput::dv:
      return sized(input, Content::activation, shape.tokens, shape.kv_heads * shape.head_dim);
    case TpspInput::ot:
      return sized(input, Content::weight, shape.heads * shape.head_dim, shape.tokens);
    case TpspInput::wkt:
    case TpspInput::wvt:
      return sized(input, Content::weight, shape.hidden, shape.kv_heads * shape.head_dim);
    case TpspInput::gamma_attention:
    case TpspInput::gamma_mlp:
      return gamma(input, shape.hidden);
    case TpspInput::wk:
    case TpspInput::wv:
      break;
  }
  return sized(input, Content::weight, shape.kv_heads * shape.head_dim, shape.hidden);
}

Fill tpsp_transpose(const Shape& shape, TpspInput input) {
  return transpose_of(tpsp_input(shape, input));
}

Fill own_tokens(const Fill& global, TensorId buffer, const Axis& axis, std::int32_t rank) {
  const std::int32_t first = rank * axis.rows;
  const View view{.tensor = buffer, .row = first, .rows = axis.rows, .cols = global.view.cols};
  return piece_of(global, view, first, 0);
}

Fill tpsp_columns(const Shape& shape, TpspInput input, const View& view, std::int32_t rank) {
  return piece_of(tpsp_input(shape, input), view, 0, rank * view.cols);
}

}  // namespace commfuse

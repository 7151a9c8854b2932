// SPDX-License-Identifier: Apache-2.0
// The global tensors that the tpsp and ulysses workloads start from. Ranks hold pieces of them; the
// oracle reads them whole.
#pragma once

#include <cstdint>

#include "suite/data.h"
#include "suite/shape.h"
#include "suite/stage.h"

namespace commfuse {

enum class TpspInput : std::uint32_t {
  x,                // [tokens, hidden]: input of the column-parallel linear
  a,                // [tokens, ffn]: input of the row-parallel linear
  up,               // [ffn, hidden]
  gate,             // [ffn, hidden]: SwiGLU only
  down,             // [hidden, ffn]
  q,                // [tokens, heads * head_dim]
  k,                // [tokens, kv_heads * head_dim]
  v,                // [tokens, kv_heads * head_dim]
  out,              // [hidden, heads * head_dim]
  wq,               // [heads * head_dim, hidden]
  wk,               // [kv_heads * head_dim, hidden]
  wv,               // [kv_heads * head_dim, hidden]
  xt,               // [hidden, tokens]: the transpose of x where it is summed over tokens, sparse
  at,               // [ffn, tokens]: likewise of a
  h,                // [tokens, ffn]: saved input of the activation
  h_gate,           // [tokens, ffn]: SwiGLU only
  gate_down,        // [hidden, ffn]: the transpose of gate where it is summed over ffn, sparse
  gamma_attention,  // [1, hidden]: of the norm before attention
  gamma_mlp,        // [1, hidden]: of the norm before the MLP
  dq,               // [tokens, heads * head_dim]: what reaches q
  dk,               // [tokens, kv_heads * head_dim]: what reaches k
  dv,               // [tokens, kv_heads * head_dim]: what reaches v
  d_o,              // [tokens, heads * head_dim]: what reaches the attention's result
  ot,               // [heads * head_dim, tokens]: as xt, of the saved result of attention
  wkt,              // [hidden, kv_heads * head_dim]: the transpose of wk where it is summed over
                    // heads, sparse; of wq that is out
  wvt,              // [hidden, kv_heads * head_dim]: likewise of wv
  xnt,              // [hidden, tokens]: as xt, of the saved result of the norm before attention
  norm_attention,   // [tokens, hidden]: saved input of that norm
  norm_mlp,         // [tokens, hidden]: saved input of the norm before the MLP
};

/// A fill of all of the global tensor.
Fill tpsp_input(const Shape& shape, TpspInput input);
/// The transpose of the global tensor, as a fill of all of it.
Fill tpsp_transpose(const Shape& shape, TpspInput input);
/// The rank's slice of a global tensor's tokens, at its place in the gather buffer `buffer`.
Fill own_tokens(const Fill& global, TensorId buffer, const Axis& axis, std::int32_t rank);
/// All rows, and the columns of one rank: `view` holds the rank-th run of view.cols columns.
Fill tpsp_columns(const Shape& shape, TpspInput input, const View& view, std::int32_t rank);

}  // namespace commfuse

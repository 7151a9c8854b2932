// SPDX-License-Identifier: Apache-2.0
// Tensor parallelism with sequence parallelism: linear layers cut over ranks by features, their
// inputs and results by tokens. Each builder requires its constraint to be empty.
#pragma once

#include <cstdint>
#include <string>

#include "suite/workload.h"

namespace commfuse {

/// Tokens and ffn are cut over ranks.
std::string tpsp_mlp_unsupported(const Shape& shape, std::int32_t ranks);
/// Heads are cut over ranks, kv heads too or replicated; tokens, under a causal mask in pairs.
std::string tpsp_attention_unsupported(const Shape& shape, std::int32_t ranks);

/// As forward, but kv heads are cut as well: a gradient of shared ones would have to be summed.
std::string tpsp_attention_backward_unsupported(const Shape& shape, std::int32_t ranks);

/// Tokens and kv heads, with the query heads that belong to them, are cut over ranks.
std::string tpsp_qkv_unsupported(const Shape& shape, std::int32_t ranks);
/// Tokens, heads, kv heads and ffn are cut over ranks; tokens, under a causal mask, in pairs.
std::string tpsp_layer_unsupported(const Shape& shape, std::int32_t ranks);

/// gather X; H = X U^T.
Workload tpsp_ag_gemm(const Shape& shape, std::int32_t ranks);
/// partial = A D^T; reduce-scatter.
Workload tpsp_gemm_rs(const Shape& shape, std::int32_t ranks);
/// dX = dH U, reduce-scatter; gather X, dU = dH^T X. The gather may travel under the first, and the
/// reduce-scatter under the second.
Workload tpsp_ag_gemm_backward(const Shape& shape, std::int32_t ranks);
/// gather dY; dA = dY D and dD = dY^T A.
Workload tpsp_gemm_rs_backward(const Shape& shape, std::int32_t ranks);
/// gather X; H = X U^T (SwiGLU: gate and up stacked in U); A = activation(H); partial = A D^T;
/// reduce-scatter.
Workload tpsp_mlp(const Shape& shape, std::int32_t ranks);
/// gather dY; dA = dY D, dH = activation'(H) dA, partial = dH U, reduce-scatter to dX; dD = dY^T A;
/// gather X, dU = dH^T X.
Workload tpsp_mlp_backward(const Shape& shape, std::int32_t ranks);
/// The same as tpsp_mlp with X whole on every rank.
Workload tpsp_mlp_rs(const Shape& shape, std::int32_t ranks);
/// O = attention(Q, K, V) of the own heads, cut along query rows; partial = O W^T; reduce-scatter.
Workload tpsp_attention(const Shape& shape, std::int32_t ranks);
/// gather dY; dO = dY W, attention's gradient on query rows to dQ, dK and dV; dW = dY^T O.
Workload tpsp_attention_backward(const Shape& shape, std::int32_t ranks);
/// gather X; QKV = X W^T, W stacked by kv group.
Workload tpsp_qkv(const Shape& shape, std::int32_t ranks);
/// dX = dQKV W, reduce-scatter; gather X, dW = dQKV^T X. The gather may travel under the first, and
/// the reduce-scatter under the second.
Workload tpsp_qkv_backward(const Shape& shape, std::int32_t ranks);
/// Xn = norm(X) of the own tokens, gather; QKV = Xn W^T; attention as above, reduce-scatter; Y = X
/// + result and Yn = norm(Y) of the own tokens, gather; the MLP as above, reduce-scatter; Z = Y +
/// result.
Workload tpsp_layer(const Shape& shape, std::int32_t ranks);
/// gather dZ; the MLP's dgrad as above, reduce-scatter to dYn; dD; dY = dZ + what reaches Y through
/// the norm, of the own tokens; dgamma, all-reduce; gather Yn, dU; gather dY, dO = dY Wo and
/// attention's gradient to dQKV; partial = dQKV W, reduce-scatter to dXn; dWo; dX as dY; dgamma,
/// all-reduce; gather Xn, dW.
Workload tpsp_layer_backward(const Shape& shape, std::int32_t ranks);

}  // namespace commfuse

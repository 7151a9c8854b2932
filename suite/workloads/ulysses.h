// SPDX-License-Identifier: Apache-2.0
// Ulysses: tokens are cut over ranks, except in attention, where heads are; an all-to-all leads
// from one to the other and one leads back (DeepSpeed-Ulysses, arXiv 2309.14509). Weights are whole
// on every rank. Under a causal mask rows are in slice order (zigzag pairs). Each builder requires
// its constraint to be empty.
//
// What an all-to-all moves lies in blocks of rows, one for each rank: block j of what is sent goes
// to rank j; block j of what is received came from it. So Q, K and V received are whole sequences,
// in order, of the own heads; and of the attention's result received, block j has the heads of rank
// j for the own tokens.
#pragma once

#include <cstdint>
#include <string>

#include "suite/workload.h"

namespace commfuse {

/// Tokens and kv heads, with the query heads that belong to them, are cut over ranks; tokens in
/// pairs under a causal mask.
std::string ulysses_unsupported(const Shape& shape, std::int32_t ranks);
/// The same; the MLP needs no cut.
std::string ulysses_layer_unsupported(const Shape& shape, std::int32_t ranks);

/// K, V and Q = X W^T of the own tokens, each followed by an all-to-all: K and V before Q, so that
/// attention can begin with the first slice of queries.
Workload ulysses_qkv(const Shape& shape, std::int32_t ranks);
/// O = attention(Q, K, V) of the own heads, cut along query rows; all-to-all.
Workload ulysses_attention(const Shape& shape, std::int32_t ranks);
/// Both, and Y = O W^T of the own tokens, a sum over the pieces of O that came from the ranks.
Workload ulysses_block(const Shape& shape, std::int32_t ranks);
/// Xn = norm(X); the block of Xn; Y = X + its result; Z = Y + MLP(norm(Y)) of the own tokens.
Workload ulysses_layer(const Shape& shape, std::int32_t ranks);

/// Also that the tensors of the backward pass, which are more, can be counted.
std::string ulysses_backward_unsupported(const Shape& shape, std::int32_t ranks);

/// All-to-all of dQ, dK and dV of the own heads; dX and the gradients of the weights from the own
/// tokens, sums over the pieces: dQ first, so that dK and dV travel meanwhile.
Workload ulysses_qkv_backward(const Shape& shape, std::int32_t ranks);
/// All-to-all of dO of the own tokens; dQ, dK and dV of the own heads, cut along query rows;
/// all-to-all of dQ as it is made, of dK and dV when they are summed.
Workload ulysses_attention_backward(const Shape& shape, std::int32_t ranks);
/// dO = dY Wo and dWo = dY^T O of the own tokens, then both.
Workload ulysses_block_backward(const Shape& shape, std::int32_t ranks);

/// And those of the MLP.
std::string ulysses_layer_backward_unsupported(const Shape& shape, std::int32_t ranks);
/// From dZ through the MLP of the own tokens, its norm, the block and the norm of attention to dX;
/// the gradients of all weights and gammas from the own tokens.
Workload ulysses_layer_backward(const Shape& shape, std::int32_t ranks);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// The oracle's answers for the backward pass of a transformer layer: what tpsp and ulysses share.
// Saved activations are inputs of their own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "suite/oracle_attention.h"
#include "suite/workloads/projected_heads.h"
#include "suite/workloads/tpsp_inputs.h"

namespace commfuse {

/// The saved queries, keys or values of all heads: where exact, signs and no codes, so that dQ and
/// dK are not 0.
Fill saved_heads(const Shape& shape, TpspInput input);
/// All of them, as attention reads them.
AttentionInputs saved_attention(const Shape& shape, const Source& source);

/// One of the two norms: its saved input, and its factors.
struct SavedNorm {
  TpspInput x, gamma;
};
inline constexpr SavedNorm kMlpNorm{TpspInput::norm_mlp, TpspInput::gamma_mlp};
inline constexpr SavedNorm kAttentionNorm{TpspInput::norm_attention, TpspInput::gamma_attention};

/// What reaches x from the norm's result, dn, and what reaches it beside the norm, for some tokens.
Rows through_norm(const Shape& shape, const SavedNorm& norm, const Rows& dn, const Rows& beside,
                  std::span<const std::int32_t> tokens, const Source& source);
/// What reaches gamma from these tokens (gamma_gradient()).
Rows gamma_of_norm(const Shape& shape, const SavedNorm& norm, const Rows& dn,
                   std::span<const std::int32_t> tokens, std::int32_t times_stored,
                   const Source& source);

/// first, first + 1, ...
std::vector<std::int32_t> numbers_from(std::int32_t first, std::int32_t count);
/// These columns of `from`, as rows.
Rows transposed_columns(const Rows& from, std::span<const std::int32_t> cols);
/// The same rows, each computed once, when it is first asked for. Copies share them.
TokenRows computed_once(TokenRows rows, std::int32_t cols);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// What decides how long a compute op or a collective takes on a given machine, as a value: where it
// lies in memory and on which rank it runs does not.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "impls/plan.h"
#include "suite/compute.h"

namespace commfuse {

/// Sizes are those of size_names(kind). Strides of views are not part of a key.
struct OpKey {
  std::string kind;  // "gemm", "attention", "copy", ..., "all_gather", ...
  /// Everything else that must be equal: dtypes, what is written before what is read ("bf16" where
  /// all are), strips likewise where there are several, and what is special to the kind: which
  /// operands of a gemm are transposed (N or T) and whether it adds C, D itself or nothing; kv
  /// heads, head size and mask of attention; the activation; whether a gradient adds. Of a
  /// collective the transport.
  std::string how;
  std::array<std::int64_t, 3> sizes{};  // those that the kind does not have are 0
  friend auto operator<=>(const OpKey&, const OpKey&) = default;
};

/// gemm: m, n, k; attention and its gradient: queries, keys, heads; accumulate: rows, cols, terms;
/// collectives: ranks, bytes that each of them sends (least_bytes_sent()); others: rows, cols.
/// Empty for a kind that does not exist.
std::span<const std::string_view> size_names(std::string_view kind);

OpKey key_of(const Compute& op, std::span<const Tensor> tensors);
OpKey key_of(const Collective& collective, std::int32_t ranks, std::span<const Tensor> tensors,
             std::string_view transport);

/// "gemm 512x4096x1024 bf16 NT + C".
std::string describe(const OpKey& key);

}  // namespace commfuse

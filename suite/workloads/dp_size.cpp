// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/dp_size.h"

#include "suite/workloads/phases.h"

namespace commfuse {
namespace {

/// Of the larger workload, the weight gradient, on all ranks together: dY and X; partial and
/// result.
WorkSize size_of(const Shape& shape, double tokens, std::int32_t ranks) {
  const double hidden = shape.hidden;
  const double ffn = shape.ffn;
  return {tokens * hidden * ffn, tokens * (hidden + ffn) + (ranks + 1.0) * ffn * hidden};
}

}  // namespace

std::int32_t all_tokens(const Shape& shape, std::int32_t ranks) { return shape.tokens * ranks; }

std::string dp_unsupported(const Shape& shape, std::int32_t ranks) {
  const double tokens = double{1} * shape.tokens * ranks;
  for (const auto& reason :
       {unless_given("tokens", shape.tokens), unless_given("ffn", shape.ffn),
        unless_divisible("ffn", shape.ffn, ranks), unless_below("tokens x ranks", tokens, 31),
        unless_countable("tokens x ranks x hidden x ffn", size_of(shape, tokens, ranks))}) {
    if (!reason.empty()) return reason;
  }
  return {};
}

}  // namespace commfuse

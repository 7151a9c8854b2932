// SPDX-License-Identifier: Apache-2.0
// What reaches the saved queries, keys and values through the out-projection: what the backward
// passes of tpsp that have attention in them ask of the oracle.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "suite/answers.h"
#include "suite/oracle_attention_gradient.h"
#include "suite/workloads/projected_heads.h"
#include "suite/workloads/tpsp_backward_answers.h"

namespace commfuse {

/// Copies share what was computed.
class SavedHeadGradients {
 public:
  /// `dy` reaches the out-projection, and `saved` has free of error what attention read.
  SavedHeadGradients(const Shape& shape, const AttentionInputs& saved, const TokenRows& dy,
                     const Source& source);

  /// dQ of these query heads for some tokens.
  [[nodiscard]] Rows q(Range heads, std::span<const std::int32_t> tokens) const;
  /// dK or dV of these kv heads for some tokens: summed in fp32, then stored in `dtype`. Sums of a
  /// head are made for all tokens when it is first asked for.
  [[nodiscard]] Rows kv(Rows KeyGradients::*which, Range heads,
                        std::span<const std::int32_t> tokens, DType dtype) const;

 private:
  [[nodiscard]] const KeyGradients& sums(std::int32_t head) const;

  Shape shape_;
  AttentionGradientInputs inputs_;
  std::shared_ptr<std::map<std::int32_t, KeyGradients>> sums_;
};

/// The transpose of the saved output of attention, as sparse_a() is of A.
SparseOperand sparse_o(const Shape& shape, std::int32_t ranks);

}  // namespace commfuse

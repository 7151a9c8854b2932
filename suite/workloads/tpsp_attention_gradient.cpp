// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/tpsp_attention_gradient.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "suite/oracle_number.h"
#include "suite/workloads/tpsp_answers.h"
#include "suite/workloads/tpsp_inputs.h"

namespace commfuse {
namespace {

/// Tiles of queries that a schedule may add up one after the other, for each slice of tokens.
constexpr std::int32_t kTilesOfSlice = 64;

/// Element (row, col) of `from`, stored in `dtype` once it is no longer a sum in fp32.
void round_into(Rows& to, std::size_t at, const Rows& from, std::size_t i, DType dtype) {
  if (is_narrow(dtype)) {
    store(to, at, Storing(dtype), number_at(from, i));
    return;
  }
  to.value[at] = from.value[i];
  to.error[at] = from.error[i];
  to.scale[at] = from.scale[i];
}

}  // namespace

SavedHeadGradients::SavedHeadGradients(const Shape& shape, const AttentionInputs& saved,
                                       const TokenRows& dy, const Source& source)
    : shape_(shape),
      inputs_{
          .forward = saved,
          .d_o =
              [=](Range heads, std::span<const std::int32_t> tokens) {
                const Fill wo = tpsp_input(shape, TpspInput::wq);
                const Range features{heads.first * shape.head_dim, heads.count * shape.head_dim};
                return linear(dy(tokens),
                              {.global = wo, .rows = features, .cols = {0, wo.view.cols}}, source,
                              shape.dtype);
              }},
      sums_(std::make_shared<std::map<std::int32_t, KeyGradients>>()) {}

Rows SavedHeadGradients::q(Range heads, std::span<const std::int32_t> tokens) const {
  return attend_gradient(shape_, inputs_, heads, tokens);
}

const KeyGradients& SavedHeadGradients::sums(std::int32_t head) const {
  const auto found = sums_->find(head);
  if (found != sums_->end()) return found->second;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(shape_.tokens));
  std::iota(tokens.begin(), tokens.end(), 0);
  const KeySums how{.dtype = DType::f32, .times_stored = std::min(shape_.tokens, kTilesOfSlice)};
  return sums_->emplace(head, attend_key_gradients(shape_, inputs_, {head, 1}, tokens, how))
      .first->second;
}

Rows SavedHeadGradients::kv(Rows KeyGradients::*which, Range heads,
                            std::span<const std::int32_t> tokens, DType dtype) const {
  Rows some(static_cast<std::int32_t>(tokens.size()), heads.count * shape_.head_dim);
  for (std::int32_t head = 0; head < heads.count; ++head) {
    const Rows& all = sums(heads.first + head).*which;
    for (std::int32_t i = 0; i < some.count; ++i) {
      for (std::int32_t col = 0; col < shape_.head_dim; ++col) {
        round_into(some, some.at(i, head * shape_.head_dim + col), all,
                   all.at(tokens[static_cast<std::size_t>(i)], col), dtype);
      }
    }
  }
  return some;
}

SparseOperand sparse_o(const Shape& shape, std::int32_t ranks) {
  return [=](Range asked) {
    return WeightPart{.global = tpsp_input(shape, TpspInput::ot),
                      .rows = share_of(asked, shape.heads * shape.head_dim, ranks),
                      .cols = {0, shape.tokens}};
  };
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/layer_gradients.h"

#include <map>
#include <memory>
#include <numeric>
#include <utility>

namespace commfuse {
namespace {

using RowNumbers = std::span<const std::int32_t>;

/// Rows that are kept, by their number.
class KeptRows {
 public:
  KeptRows(TokenRows rows, std::int32_t cols) : compute_(std::move(rows)), cols_(cols) {}

  Rows rows(RowNumbers numbers) {
    compute_missing(numbers);
    Rows some(static_cast<std::int32_t>(numbers.size()), cols_);
    for (std::int32_t i = 0; i < some.count; ++i) {
      copy_row(kept_.at(numbers[static_cast<std::size_t>(i)]), 0, some, i);
    }
    return some;
  }

 private:
  void compute_missing(RowNumbers numbers) {
    std::vector<std::int32_t> missing;
    for (const std::int32_t number : numbers) {
      if (kept_.emplace(number, Rows(1, cols_)).second) missing.push_back(number);
    }
    if (missing.empty()) return;
    const Rows made = compute_(missing);
    for (std::int32_t i = 0; i < made.count; ++i) {
      copy_row(made, i, kept_.at(missing[static_cast<std::size_t>(i)]), 0);
    }
  }

  TokenRows compute_;
  std::int32_t cols_;
  std::map<std::int32_t, Rows> kept_;
};

Rows saved_input(const Shape& shape, const SavedNorm& norm, RowNumbers tokens,
                 const Source& source) {
  return input_rows(tpsp_input(shape, norm.x), {0, shape.hidden}, tokens, source);
}

}  // namespace

Fill saved_heads(const Shape& shape, TpspInput input) {
  Fill fill = tpsp_input(shape, input);
  fill.content = Content::activation;
  return fill;
}

AttentionInputs saved_attention(const Shape& shape, const Source& source) {
  const auto columns = [=](Range heads) {
    return Range{heads.first * shape.head_dim, heads.count * shape.head_dim};
  };
  const auto head_of = [=](TpspInput input) {
    return [=](std::int32_t head) {
      return all_rows(saved_heads(shape, input), columns({head, 1}), source);
    };
  };
  return {.q =
              [=](Range heads, RowNumbers tokens) {
                return input_rows(saved_heads(shape, TpspInput::q), columns(heads), tokens, source);
              },
          .k = head_of(TpspInput::k),
          .v = head_of(TpspInput::v)};
}

Rows through_norm(const Shape& shape, const SavedNorm& norm, const Rows& dn, const Rows& beside,
                  RowNumbers tokens, const Source& source) {
  const Rows gamma = all_rows(tpsp_input(shape, norm.gamma), {0, shape.hidden}, source);
  const Rows through =
      norm_gradient(dn, saved_input(shape, norm, tokens, source), gamma, shape.dtype);
  return residual(through, beside, shape.dtype);
}

Rows gamma_of_norm(const Shape& shape, const SavedNorm& norm, const Rows& dn, RowNumbers tokens,
                   std::int32_t times_stored, const Source& source) {
  return gamma_gradient(dn, saved_input(shape, norm, tokens, source), times_stored, shape.dtype);
}

std::vector<std::int32_t> numbers_from(std::int32_t first, std::int32_t count) {
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

Rows transposed_columns(const Rows& from, RowNumbers cols) {
  Rows to(static_cast<std::int32_t>(cols.size()), from.count);
  for (std::int32_t row = 0; row < to.count; ++row) {
    for (std::int32_t i = 0; i < from.count; ++i) {
      const std::size_t source = from.at(i, cols[static_cast<std::size_t>(row)]);
      const std::size_t target = to.at(row, i);
      to.value[target] = from.value[source];
      to.error[target] = from.error[source];
      to.scale[target] = from.scale[source];
    }
  }
  return to;
}

TokenRows computed_once(TokenRows rows, std::int32_t cols) {
  return [kept = std::make_shared<KeptRows>(std::move(rows), cols)](RowNumbers numbers) {
    return kept->rows(numbers);
  };
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/dp_gradient_answers.h"

#include <algorithm>
#include <span>
#include <utility>

#include "suite/oracle_chain.h"

namespace commfuse {
namespace {

/// 16 tokens of all ranks are not 0 in a column of X, and 16 * 16 is what bf16 holds.
constexpr std::int32_t kLargestGradient = 16;

using RowNumbers = std::span<const std::int32_t>;

Range tokens_of(const DpBackward& pass, Range ranks) {
  return {ranks.first * pass.tokens, ranks.count * pass.tokens};
}

/// X^T of map i over the tokens of these ranks, each of which sums its own.
WeightPart saved_input(const DpBackward& pass, std::size_t i, Range ranks) {
  return {.global = pass.xt[i],
          .rows = {0, pass.linears[i].in},
          .cols = tokens_of(pass, ranks),
          .pieces = ranks.count};
}

/// Rows of dY^T X of map i.
Rows gradient_rows(const DpBackward& pass, std::size_t i, const Shape& shape, const Source& source,
                   Range ranks, RowNumbers rows) {
  const Range tokens = tokens_of(pass, ranks);
  const auto above = std::span(pass.wt).first(pass.linears.size() - 1 - i);
  const Rows dy = above.empty() ? input_rows(transpose_of(pass.dy), tokens, rows, source)
                                : chain_columns(pass.dy, tokens, above, rows, source, shape.dtype);
  return linear(dy, saved_input(pass, i, ranks), source, shape.gradient);
}

Rows bucket_rows(const Bucket& bucket, const DpBackward& pass, const Shape& shape,
                 const Source& source, Range ranks, RowNumbers rows) {
  Rows result(static_cast<std::int32_t>(rows.size()), bucket.cols);
  for (std::size_t m = 0; m < bucket.maps.size(); ++m) {
    std::vector<std::int32_t> numbers;
    std::vector<std::int32_t> targets;
    for (std::int32_t target = 0; target < result.count; ++target) {
      const std::int32_t row = rows[static_cast<std::size_t>(target)];
      if (row / bucket.rows_of_map != static_cast<std::int32_t>(m)) continue;
      numbers.push_back(row % bucket.rows_of_map);
      targets.push_back(target);
    }
    if (numbers.empty()) continue;
    place(gradient_rows(pass, bucket.maps[m], shape, source, ranks, numbers), targets, result);
  }
  return result;
}

}  // namespace

DpBackward::DpBackward(const Shape& shape, std::int32_t ranks)
    : linears(dp_linears(shape)),
      tokens(shape.tokens),
      dy(dp_input(DpInput::dy, 0, Content::activation, all_tokens(shape, ranks), shape.hidden)) {
  for (std::size_t i = 0; i < linears.size(); ++i) {
    xt.push_back(
        dp_input(DpInput::xt, i, Content::weight, linears[i].in, all_tokens(shape, ranks)));
  }
  for (std::size_t i = linears.size() - 1; i > 0; --i) {
    wt.push_back(dp_input(DpInput::wt, i, Content::weight, linears[i].in, linears[i].out));
  }
  wt = dp_chained(std::move(wt), kLargestGradient);
}

void place(const Rows& from, const std::vector<std::int32_t>& at, Rows& to) {
  const auto copy = [&](const std::vector<double>& source, std::vector<double>& target,
                        std::int32_t row) {
    std::copy_n(
        source.begin() + static_cast<std::ptrdiff_t>(from.at(row, 0)), from.cols,
        target.begin() + static_cast<std::ptrdiff_t>(to.at(at[static_cast<std::size_t>(row)], 0)));
  };
  for (std::int32_t row = 0; row < from.count; ++row) {
    copy(from.value, to.value, row);
    copy(from.error, to.error, row);
    copy(from.scale, to.scale, row);
  }
}

Answers gradient_answers(TensorId partial, const Bucket& bucket, const DpBackward& pass,
                         const Shape& shape, const Source& source) {
  Answers answers{.tensor = partial,
                  .exact = true,
                  .rows =
                      [=](Range ranks, RowNumbers rows) {
                        return bucket_rows(bucket, pass, shape, source, ranks, rows);
                      },
                  .product = {}};
  const std::size_t last = pass.linears.size() - 1;
  if (bucket.maps == std::vector{last}) {
    answers.product = [=](Range ranks) {
      return Product{transpose_of(pass.dy), saved_input(pass, last, ranks)};
    };
  }
  return answers;
}

}  // namespace commfuse

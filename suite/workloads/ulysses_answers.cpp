// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/ulysses_answers.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

namespace commfuse {
namespace {

using RowNumbers = std::span<const std::int32_t>;

/// X W^T for some rows of X and of W. Of exact data no sum is rounded (data.cpp), so nothing is
/// off.
Rows project(const Shape& shape, TpspInput weight, Range features, RowNumbers tokens,
             const Source& source) {
  const Rows x = input_rows(tpsp_input(shape, TpspInput::x), {0, shape.hidden}, tokens, source);
  const WeightPart part{
      .global = tpsp_input(shape, weight), .rows = features, .cols = {0, shape.hidden}};
  Rows result = linear(x, part, source, shape.dtype);
  if (source.mode == DataMode::exact) {
    std::ranges::fill(result.error, 0.0);
    std::ranges::fill(result.scale, 0.0);
  }
  return result;
}

/// The columns of one head for every token, made when they are first asked for.
class ProjectedHeads {
 public:
  ProjectedHeads(const Shape& shape, TpspInput weight, const Source& source)
      : shape_(shape), weight_(weight), source_(source) {}

  const Rows& head(std::int32_t head) {
    const auto found = heads_.find(head);
    if (found != heads_.end()) return found->second;
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(shape_.tokens));
    std::iota(tokens.begin(), tokens.end(), 0);
    const Range features{head * shape_.head_dim, shape_.head_dim};
    return heads_.emplace(head, project(shape_, weight_, features, tokens, source_)).first->second;
  }

 private:
  Shape shape_;
  TpspInput weight_;
  Source source_;
  std::map<std::int32_t, Rows> heads_;
};

void copy_row(const Rows& from, std::int32_t row, Rows& to, std::int32_t at) {
  const auto copy = [&](const std::vector<double>& source, std::vector<double>& target) {
    std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(from.at(row, 0)), from.cols,
                target.begin() + static_cast<std::ptrdiff_t>(to.at(at, 0)));
  };
  copy(from.value, to.value);
  copy(from.error, to.error);
  copy(from.scale, to.scale);
}

}  // namespace

Rows projection_rows(const Shape& shape, TpspInput weight, std::int32_t ranks, std::int32_t rank,
                     RowNumbers rows, const Source& source) {
  const std::int32_t share = tpsp_input(shape, weight).view.rows / ranks;
  const std::int32_t block = shape.tokens / ranks;
  Rows result(static_cast<std::int32_t>(rows.size()), share);
  for (std::int32_t peer = 0; peer < ranks; ++peer) {
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> places;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] / block != peer) continue;
      tokens.push_back(rank * block + rows[i] % block);
      places.push_back(static_cast<std::int32_t>(i));
    }
    if (tokens.empty()) continue;
    const Rows part = project(shape, weight, {peer * share, share}, tokens, source);
    for (std::int32_t i = 0; i < part.count; ++i) {
      copy_row(part, i, result, places[static_cast<std::size_t>(i)]);
    }
  }
  return result;
}

AttentionInputs projected_inputs(const Shape& shape, const Source& source) {
  const auto head_of = [&](TpspInput weight) {
    return [heads = std::make_shared<ProjectedHeads>(shape, weight, source)](std::int32_t head) {
      return heads->head(head);
    };
  };
  return {.q =
              [=](Range heads, RowNumbers rows) {
                const Range features{heads.first * shape.head_dim, heads.count * shape.head_dim};
                return project(shape, TpspInput::wq, features, rows, source);
              },
          .k = head_of(TpspInput::wk),
          .v = head_of(TpspInput::wv)};
}

Rows out_projection(const Shape& shape, std::int32_t ranks, const Rows& o, const Source& source) {
  const Fill weight = tpsp_input(shape, TpspInput::out);
  const WeightPart whole{.global = weight,
                         .rows = {0, weight.view.rows},
                         .cols = {0, weight.view.cols},
                         .pieces = ranks};
  return linear(o, whole, source, shape.dtype);
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/projected_heads.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

#include "suite/workloads/tpsp_inputs.h"

namespace commfuse {
namespace {

/// Rows of x that are in memory at once.
constexpr std::int32_t kTokensAtOnce = 256;

/// The columns of one head for every token, made when they are first asked for.
class ProjectedHeads {
 public:
  ProjectedHeads(const Shape& shape, const Fill& weight, TokenRows x, const Source& source)
      : shape_(shape), weight_(weight), x_(std::move(x)), source_(source) {}

  const Rows& head(std::int32_t head) {
    const auto found = heads_.find(head);
    if (found != heads_.end()) return found->second;
    return heads_.emplace(head, made(head)).first->second;
  }

 private:
  [[nodiscard]] Rows made(std::int32_t head) const {
    Rows all(shape_.tokens, shape_.head_dim);
    for (std::int32_t first = 0; first < shape_.tokens; first += kTokensAtOnce) {
      const auto count = std::min(kTokensAtOnce, shape_.tokens - first);
      std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
      std::iota(tokens.begin(), tokens.end(), first);
      const Rows some = project(x_(tokens), weight_, {head * shape_.head_dim, shape_.head_dim},
                                source_, shape_.dtype);
      for (std::int32_t i = 0; i < count; ++i) copy_row(some, i, all, first + i);
    }
    return all;
  }

  Shape shape_;
  Fill weight_;
  TokenRows x_;
  Source source_;
  std::map<std::int32_t, Rows> heads_;
};

bool free_of_error(const Rows& x) {
  return std::ranges::all_of(x.error, [](double error) { return error == 0; });
}

}  // namespace

TokenRows input_tokens(const Shape& shape, const Source& source) {
  return [=](std::span<const std::int32_t> tokens) {
    return input_rows(tpsp_input(shape, TpspInput::x), {0, shape.hidden}, tokens, source);
  };
}

ProjectionWeights projection_weights(const Shape& shape) {
  return {tpsp_input(shape, TpspInput::wq), tpsp_input(shape, TpspInput::wk),
          tpsp_input(shape, TpspInput::wv)};
}

Rows project(const Rows& x, const Fill& weight, Range features, const Source& source, DType dtype) {
  const WeightPart part{.global = weight, .rows = features, .cols = {0, x.cols}};
  Rows result = linear(x, part, source, dtype);
  if (source.mode == DataMode::exact && free_of_error(x)) {
    std::ranges::fill(result.error, 0.0);
    std::ranges::fill(result.scale, 0.0);
  }
  return result;
}

AttentionInputs projected_inputs(const Shape& shape, const ProjectionWeights& weights,
                                 const TokenRows& x, const Source& source) {
  const auto head_of = [&](const Fill& weight) {
    return [heads = std::make_shared<ProjectedHeads>(shape, weight, x, source)](std::int32_t head) {
      return heads->head(head);
    };
  };
  return {.q =
              [=](Range heads, std::span<const std::int32_t> rows) {
                const Range features{heads.first * shape.head_dim, heads.count * shape.head_dim};
                return project(x(rows), weights.q, features, source, shape.dtype);
              },
          .k = head_of(weights.k),
          .v = head_of(weights.v)};
}

}  // namespace commfuse

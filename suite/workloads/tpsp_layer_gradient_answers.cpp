// SPDX-License-Identifier: Apache-2.0
// One class answers both for the whole group and for one rank on its own. They differ in what comes
// from others: the sums dYn and dXn, and the slices of dY, which are stand-ins on a lone rank.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "suite/workloads/layer_answers.h"
#include "suite/workloads/layer_gradients.h"
#include "suite/workloads/tpsp_answers.h"
#include "suite/workloads/tpsp_attention_gradient.h"
#include "suite/workloads/tpsp_backward_answers.h"
#include "suite/workloads/tpsp_layer_gradients.h"

namespace commfuse {
namespace {

using RowNumbers = std::span<const std::int32_t>;

/// Column `col` of `from` becomes row `row` of `to`.
void copy_column(const Rows& from, std::int32_t col, Rows& to, std::int32_t row) {
  for (std::int32_t i = 0; i < from.count; ++i) {
    const std::size_t source = from.at(i, col);
    const std::size_t target = to.at(row, i);
    to.value[target] = from.value[source];
    to.error[target] = from.error[source];
    to.scale[target] = from.scale[source];
  }
}

class LayerBackward {
 public:
  /// Of all ranks together, or of `lone` where nothing moves.
  LayerBackward(const Shape& shape, const LayerGradients& layer, const Axis& axis,
                const Source& source, std::optional<std::int32_t> lone)
      : shape_(shape),
        layer_(layer),
        axis_(axis),
        source_(source),
        lone_(lone),
        mlp_(mlp_input_gradient(layer.mlp.partial.id, shape, axis.ranks, source)),
        heads_(
            shape, saved_attention(shape, source), [this](RowNumbers tokens) { return dy(tokens); },
            source) {}
  LayerBackward(const LayerBackward&) = delete;  // its gradients of heads call it
  LayerBackward& operator=(const LayerBackward&) = delete;

  /// dQKV Wqkv of the heads of these ranks.
  [[nodiscard]] Rows attention_partial(Range ranks, RowNumbers tokens) const {
    const Range heads = share_of(ranks, shape_.heads, axis_.ranks);
    const Range kv_heads = share_of(ranks, shape_.kv_heads, axis_.ranks);
    const auto times = [&](const Rows& gradient, TpspInput weight) {
      return linear(gradient, row_parallel(shape_, weight, ranks, axis_.ranks), source_,
                    shape_.dtype);
    };
    Rows sum = times(heads_.q(heads, tokens), TpspInput::out);
    for (const auto& [which, weight] : {std::pair{&KeyGradients::dk, TpspInput::wkt},
                                        std::pair{&KeyGradients::dv, TpspInput::wvt}}) {
      add(sum, times(heads_.kv(which, kv_heads, tokens, shape_.dtype), weight));
    }
    return sum;
  }
  [[nodiscard]] Rows dx(RowNumbers tokens) const {
    return through_norm(shape_, kAttentionNorm, dxn(tokens), own_dy(tokens), tokens, source_);
  }
  [[nodiscard]] Rows dwo(std::int32_t rank, RowNumbers rows) const {
    return linear(transposed_columns(every_dy(), rows), sparse_o(shape_, axis_.ranks)({rank, 1}),
                  source_, DType::f32);
  }
  [[nodiscard]] Rows dwqkv(std::int32_t rank, RowNumbers rows) const {
    Rows transposed(static_cast<std::int32_t>(rows.size()), shape_.tokens);
    std::int32_t head = -1;
    Rows columns(0, 0);
    for (std::int32_t i = 0; i < transposed.count; ++i) {
      const std::int32_t row = rows[static_cast<std::size_t>(i)];
      if (row / shape_.head_dim != head) {
        head = row / shape_.head_dim;
        columns = head_columns(rank, head);
      }
      copy_column(columns, row % shape_.head_dim, transposed, i);
    }
    const Fill xnt = tpsp_input(shape_, TpspInput::xnt);
    return linear(transposed, {xnt, {0, xnt.view.rows}, {0, xnt.view.cols}}, source_, DType::f32);
  }
  [[nodiscard]] Rows dgamma_mlp(Range ranks) const {
    const std::vector<std::int32_t> tokens = tokens_of_ranks(ranks);
    return gamma(kMlpNorm, dyn(tokens), tokens, ranks.count);
  }
  [[nodiscard]] Rows dgamma_attention(Range ranks) const {
    const std::vector<std::int32_t> tokens = tokens_of_ranks(ranks);
    return gamma(kAttentionNorm, dxn(tokens), tokens, ranks.count);
  }

 private:
  [[nodiscard]] Rows stand_in(const Operand& operand, std::int32_t rank, RowNumbers rows) const {
    return input_rows(stand_in_data(operand.id, operand.tensor, axis_.ranks, rank),
                      {0, operand.tensor.cols}, rows, source_);
  }
  /// The lone rank's stand-in for what is reduced to its own tokens.
  [[nodiscard]] Rows reduced_stand_in(const Operand& operand, RowNumbers tokens) const {
    std::vector<std::int32_t> own(tokens.begin(), tokens.end());
    for (std::int32_t& token : own) token -= *lone_ * axis_.rows;
    return stand_in(operand, *lone_, own);
  }

  /// Stored by every rank, and with every addition of their sum.
  [[nodiscard]] Rows gamma(const SavedNorm& norm, const Rows& dn, RowNumbers tokens,
                           std::int32_t ranks) const {
    return gamma_of_norm(shape_, norm, dn, tokens, ranks == 1 ? 1 : ranks + 1, source_);
  }

  [[nodiscard]] Rows dyn(RowNumbers tokens) const {
    return lone_ ? reduced_stand_in(layer_.dyn, tokens) : mlp_.rows({0, axis_.ranks}, tokens);
  }
  [[nodiscard]] Rows dxn(RowNumbers tokens) const {
    return lone_ ? reduced_stand_in(layer_.dxn, tokens)
                 : attention_partial({0, axis_.ranks}, tokens);
  }
  [[nodiscard]] Rows own_dy(RowNumbers tokens) const {
    const Rows dz =
        input_rows(tpsp_input(shape_, TpspInput::x), {0, shape_.hidden}, tokens, source_);
    return through_norm(shape_, kMlpNorm, dyn(tokens), dz, tokens, source_);
  }
  [[nodiscard]] Rows slice_of_dy(std::int32_t owner) const {
    const std::vector<std::int32_t> tokens = tokens_of_ranks({owner, 1});
    return lone_ && *lone_ != owner ? stand_in(layer_.dy, owner, tokens) : own_dy(tokens);
  }
  [[nodiscard]] const Rows& every_dy() const {
    if (!dy_) {
      dy_ = std::make_unique<Rows>(shape_.tokens, shape_.hidden);
      for (std::int32_t owner = 0; owner < axis_.ranks; ++owner) {
        const Rows slice = slice_of_dy(owner);
        for (std::int32_t i = 0; i < slice.count; ++i) {
          copy_row(slice, i, *dy_, owner * axis_.rows + i);
        }
      }
    }
    return *dy_;
  }
  [[nodiscard]] Rows dy(RowNumbers tokens) const {
    Rows some(static_cast<std::int32_t>(tokens.size()), shape_.hidden);
    for (std::int32_t i = 0; i < some.count; ++i) {
      copy_row(every_dy(), tokens[static_cast<std::size_t>(i)], some, i);
    }
    return some;
  }

  /// Columns of dQKV of every token: those of the rank's head number `head`, whose query heads are
  /// followed by kv heads of dK, then of dV.
  [[nodiscard]] Rows head_columns(std::int32_t rank, std::int32_t head) const {
    const std::int32_t heads = shape_.heads / axis_.ranks;
    const std::int32_t kv_heads = shape_.kv_heads / axis_.ranks;
    const std::vector<std::int32_t> tokens = numbers_from(0, shape_.tokens);
    if (head < heads) return heads_.q({rank * heads + head, 1}, tokens);
    const bool key = head < heads + kv_heads;
    const std::int32_t of_rank = head - heads - (key ? 0 : kv_heads);
    return heads_.kv(key ? &KeyGradients::dk : &KeyGradients::dv, {rank * kv_heads + of_rank, 1},
                     tokens, shape_.dtype);
  }
  [[nodiscard]] std::vector<std::int32_t> tokens_of_ranks(Range ranks) const {
    return numbers_from(ranks.first * axis_.rows, ranks.count * axis_.rows);
  }

  Shape shape_;
  LayerGradients layer_;
  Axis axis_;
  Source source_;
  std::optional<std::int32_t> lone_;
  Answers mlp_;
  SavedHeadGradients heads_;
  mutable std::unique_ptr<Rows> dy_;  // every token, once somebody asked
};

/// The one of all ranks, or that of each.
class LayerBackwards {
 public:
  LayerBackwards(const Shape& shape, const LayerGradients& layer, const Axis& axis,
                 const Source& source, Portion portion)
      : alone_(portion == Portion::compute_only) {
    for (std::int32_t rank = 0; rank < (alone_ ? axis.ranks : 1); ++rank) {
      all_.push_back(std::make_shared<LayerBackward>(shape, layer, axis, source,
                                                     alone_ ? std::optional(rank) : std::nullopt));
    }
  }
  [[nodiscard]] const LayerBackward& of(std::int32_t rank) const {
    return *all_[alone_ ? static_cast<std::size_t>(rank) : 0];
  }

 private:
  bool alone_;
  std::vector<std::shared_ptr<const LayerBackward>> all_;
};

}  // namespace

std::vector<Answers> layer_gradient_answers(const Shape& shape, const LayerGradients& layer,
                                            const Axis& axis, const Source& source,
                                            Portion portion) {
  const LayerBackwards made(shape, layer, axis, source, portion);
  const std::int32_t ranks = axis.ranks;
  return {mlp_input_gradient(layer.mlp.partial.id, shape, ranks, source),
          gradient_answer(layer.mlp.dd.id, tpsp_transpose(shape, TpspInput::x), 0,
                          sparse_a(shape, ranks), source),
          mlp_up_gradient(layer.mlp.du.id, shape, cut_by_features(shape, ranks), source),
          {.tensor = layer.attention_partial.id,
           .rows =
               [=](Range asked, RowNumbers rows) {
                 return made.of(asked.first).attention_partial(asked, rows);
               }},
          {.tensor = layer.dx.id,
           .rows =
               [=](Range asked, RowNumbers rows) {
                 return made.of(asked.first).dx(tokens_of(axis, asked.first, rows));
               }},
          {.tensor = layer.dwo.id,
           .rows = [=](Range asked,
                       RowNumbers rows) { return made.of(asked.first).dwo(asked.first, rows); }},
          {.tensor = layer.dwqkv.id,
           .rows = [=](Range asked,
                       RowNumbers rows) { return made.of(asked.first).dwqkv(asked.first, rows); }},
          {.tensor = layer.gamma_mlp_partial.id,
           .rows = [=](Range asked, RowNumbers) { return made.of(asked.first).dgamma_mlp(asked); }},
          {.tensor = layer.gamma_attention_partial.id, .rows = [=](Range asked, RowNumbers) {
             return made.of(asked.first).dgamma_attention(asked);
           }}};
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/ulysses_attention_gradient.h"

#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "suite/oracle_attention_gradient.h"
#include "suite/workloads/gradient_phases.h"
#include "suite/workloads/layer_answers.h"
#include "suite/workloads/tpsp_answers.h"
#include "suite/workloads/tpsp_inputs.h"

namespace commfuse {
namespace {

using RowNumbers = std::span<const std::int32_t>;

/// Where a sum of what is sent is kept in fp32.
Operand sum_of(WorkloadBuilder& builder, std::string_view name, const Exchanged& moved) {
  const bool narrow = is_narrow(moved.send.tensor.dtype);
  return narrow ? builder.gradient(std::string(name), moved.send) : moved.send;
}

/// A sum goes to the tokens, rounded to what is sent.
void add_sum_exchange(WorkloadBuilder& builder, std::string_view name, const Axis& axis,
                      const Exchanged& moved, const Operand& sum) {
  Stage stage{.name = std::string(name),
              .axis = axis,
              .phases = {},
              .all_to_all = AllToAll{moved.send.id, moved.receive.id}};
  if (sum.id != moved.send.id) stage.phases = {rounded(axis, moved.send, sum)};
  builder.stage(std::move(stage));
}

/// The columns of one kv head for every token, made when they are first asked for.
class KeyGradientHeads {
 public:
  KeyGradientHeads(const Shape& shape, AttentionGradientInputs inputs)
      : shape_(shape), inputs_(std::move(inputs)) {}

  const KeyGradients& head(std::int32_t head) {
    const auto found = heads_.find(head);
    if (found != heads_.end()) return found->second;
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(shape_.tokens));
    std::iota(tokens.begin(), tokens.end(), 0);
    // Sums over tiles are kept in fp32, and rounded once.
    return heads_
        .emplace(head, attend_key_gradients(shape_, inputs_, {head, 1}, tokens, {shape_.dtype, 1}))
        .first->second;
  }

 private:
  Shape shape_;
  AttentionGradientInputs inputs_;
  std::map<std::int32_t, KeyGradients> heads_;
};

Range heads_of(Range features, const Shape& shape) {
  return {features.first / shape.head_dim, features.count / shape.head_dim};
}

/// Some rows of `from`, as columns of `to` from `first` on.
void place_columns(const Rows& from, RowNumbers rows, Rows& to, std::int32_t first) {
  for (std::int32_t i = 0; i < to.count; ++i) {
    for (std::int32_t col = 0; col < from.cols; ++col) {
      const std::size_t source = from.at(rows[static_cast<std::size_t>(i)], col);
      const std::size_t target = to.at(i, first + col);
      to.value[target] = from.value[source];
      to.error[target] = from.error[source];
      to.scale[target] = from.scale[source];
    }
  }
}

}  // namespace

ExchangedGradients attention_gradient_operands(WorkloadBuilder& builder, const Shape& shape,
                                               const Axis& axis, const Operand& d_o) {
  const std::int32_t width = shape.heads * shape.head_dim / axis.ranks;
  const std::int32_t kv_width = shape.kv_heads * shape.head_dim / axis.ranks;
  ExchangedGradients made;
  made.q = builder.tensor("Q", shape.tokens, width);
  made.k = builder.tensor("K", shape.tokens, kv_width);
  made.v = builder.tensor("V", shape.tokens, kv_width);
  made.d_o = d_o;
  made.dq = exchanged(builder, "dQ", axis, width);
  made.dk = exchanged(builder, "dK", axis, kv_width);
  made.dv = exchanged(builder, "dV", axis, kv_width);
  made.dk_sum = sum_of(builder, "dK_sum", made.dk);
  made.dv_sum = sum_of(builder, "dV_sum", made.dv);
  return made;
}

void add_attention_gradient(WorkloadBuilder& builder, const Shape& shape, const Axis& axis,
                            const ExchangedGradients& operands) {
  Attention heads;
  heads.heads = shape.heads / axis.ranks;
  heads.kv_heads = shape.kv_heads / axis.ranks;
  heads.head_dim = shape.head_dim;
  heads.mask = shape.causal ? Mask::causal : Mask::full;
  const HeadGradientOperands local{.dq = operands.dq.send,
                                   .dk = operands.dk_sum,
                                   .dv = operands.dv_sum,
                                   .d_o = operands.d_o,
                                   .q = operands.q,
                                   .k = operands.k,
                                   .v = operands.v};
  builder.stage({.name = "attention",
                 .axis = axis,
                 .phases = {attention_gradient(axis, heads, local)},
                 .pieces = Pieces{operands.d_o.id},
                 .all_to_all = AllToAll{operands.dq.send.id, operands.dq.receive.id}});
  add_sum_exchange(builder, "dk", axis, operands.dk, operands.dk_sum);
  add_sum_exchange(builder, "dv", axis, operands.dv, operands.dv_sum);
}

std::vector<Fill> attention_gradient_inputs(const Shape& shape, const ExchangedGradients& operands,
                                            SavedHeads saved, std::int32_t rank) {
  const auto own = [&](TpspInput input, const View& view) {
    return piece_of(saved(shape, input), view, 0, rank * view.cols);
  };
  return {own(TpspInput::q, operands.q.all()), own(TpspInput::k, operands.k.all()),
          own(TpspInput::v, operands.v.all())};
}

OutputGradients given_output_gradients(const Shape& shape, const Source& source) {
  return [=](Range heads, RowNumbers tokens) {
    const Range features{heads.first * shape.head_dim, heads.count * shape.head_dim};
    return input_rows(tpsp_input(shape, TpspInput::d_o), features, tokens, source);
  };
}

OutputGradients stand_in_output_gradients(const Operand& d_o, const Shape& shape,
                                          std::int32_t ranks, const Source& source) {
  return [=](Range heads, RowNumbers tokens) {
    const std::int32_t share = shape.heads / ranks;
    const std::int32_t rank = heads.first / share;
    const Range features{(heads.first - rank * share) * shape.head_dim,
                         heads.count * shape.head_dim};
    return input_rows(stand_in_data(d_o.id, d_o.tensor, ranks, rank), features, tokens, source);
  };
}

SentGradients attended_gradients(const Shape& shape, const Axis& axis, const AttentionInputs& saved,
                                 const OutputGradients& d_o) {
  const AttentionGradientInputs inputs{saved, d_o};
  const auto keys = std::make_shared<KeyGradientHeads>(shape, inputs);
  const auto of_keys = [=](Rows KeyGradients::*part) -> TokenGradients {
    return [=](std::int32_t rank, Range features, RowNumbers own) {
      const std::vector<std::int32_t> tokens = tokens_of(axis, rank, own);
      const Range heads = heads_of(features, shape);
      Rows result(static_cast<std::int32_t>(own.size()), features.count);
      for (std::int32_t i = 0; i < heads.count; ++i) {
        place_columns(keys->head(heads.first + i).*part, tokens, result, i * shape.head_dim);
      }
      return result;
    };
  };
  return {.q =
              [=](std::int32_t rank, Range features, RowNumbers own) {
                return attend_gradient(shape, inputs, heads_of(features, shape),
                                       tokens_of(axis, rank, own));
              },
          .k = of_keys(&KeyGradients::dk),
          .v = of_keys(&KeyGradients::dv)};
}

std::vector<Answers> attention_gradient_answers(const ExchangedGradients& operands,
                                                const Axis& axis, const SentGradients& gradients) {
  // Rows of what is sent are tokens of the sequence: those of rank 0, numbered on.
  const auto answer = [&](const Exchanged& moved, const TokenGradients& sent) {
    return Answers{.tensor = moved.send.id, .rows = [=](Range asked, RowNumbers rows) {
                     return sent(
                         0, share_of(asked, moved.send.tensor.cols * axis.ranks, axis.ranks), rows);
                   }};
  };
  return {answer(operands.dq, gradients.q), answer(operands.dk, gradients.k),
          answer(operands.dv, gradients.v)};
}

}  // namespace commfuse

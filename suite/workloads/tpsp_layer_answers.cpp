// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/tpsp_layer_answers.h"

#include <functional>

#include "suite/workloads/layer_answers.h"

namespace commfuse {
namespace {

using RowNumbers = std::span<const std::int32_t>;

/// One rank on its own.
class LoneRank {
 public:
  LoneRank(const Shape& shape, const LayerOperands& operands, const Axis& axis, std::int32_t rank,
           const Source& source)
      : shape_(shape),
        operands_(operands),
        axis_(axis),
        rank_(rank),
        source_(source),
        inputs_(layer_inputs(shape)) {}

  [[nodiscard]] Rows attended(RowNumbers tokens) const {
    const AttentionInputs heads = projected_inputs(
        shape_, inputs_.projections, [this](RowNumbers some) { return xn(some); }, source_);
    return linear(attend(shape_, heads, share_of(own(), shape_.heads, axis_.ranks), tokens),
                  row_parallel(inputs_.out, own(), axis_.ranks), source_, shape_.dtype);
  }
  [[nodiscard]] Rows mlp(RowNumbers tokens) const {
    return mlp_rows(yn(tokens), shape_, inputs_.mlp, axis_.ranks, own(), source_);
  }
  /// `rows` of the own slice, as of what follows.
  [[nodiscard]] Rows z(RowNumbers rows) const {
    return residual(y(rows), stand_in(operands_.mlp_result, rank_, rows), shape_.dtype);
  }

 private:
  [[nodiscard]] Range own() const { return {rank_, 1}; }
  [[nodiscard]] Rows y(RowNumbers rows) const {
    return residual(input_tokens(shape_, source_)(tokens_of(axis_, rank_, rows)),
                    stand_in(operands_.attention_result, rank_, rows), shape_.dtype);
  }
  [[nodiscard]] Rows xn(RowNumbers tokens) const {
    return gathered(operands_.xn, tokens, [this](RowNumbers rows) {
      return attention_norm(shape_, source_)(tokens_of(axis_, rank_, rows));
    });
  }
  [[nodiscard]] Rows yn(RowNumbers tokens) const {
    return gathered(operands_.yn, tokens, [this](RowNumbers rows) {
      return normed(y(rows), inputs_.gamma_mlp, source_, shape_.dtype);
    });
  }

  /// Slice by slice: the own one is computed, others are what their ranks would start with.
  [[nodiscard]] Rows gathered(const Operand& buffer, RowNumbers tokens,
                              const std::function<Rows(RowNumbers rows)>& own_rows) const {
    Rows result(static_cast<std::int32_t>(tokens.size()), buffer.tensor.cols);
    for (std::int32_t owner = 0; owner < axis_.ranks; ++owner) {
      std::vector<std::int32_t> numbers;
      std::vector<std::int32_t> places;
      for (std::int32_t i = 0; i < result.count; ++i) {
        const std::int32_t token = tokens[static_cast<std::size_t>(i)];
        if (token / axis_.rows != owner) continue;
        numbers.push_back(owner == rank_ ? token % axis_.rows : token);
        places.push_back(i);
      }
      if (numbers.empty()) continue;
      const Rows part = owner == rank_ ? own_rows(numbers) : stand_in(buffer, owner, numbers);
      for (std::int32_t i = 0; i < part.count; ++i) {
        copy_row(part, i, result, places[static_cast<std::size_t>(i)]);
      }
    }
    return result;
  }
  [[nodiscard]] Rows stand_in(const Operand& operand, std::int32_t rank, RowNumbers rows) const {
    return input_rows(stand_in_data(operand.id, operand.tensor, axis_.ranks, rank),
                      {0, operand.tensor.cols}, rows, source_);
  }

  const Shape& shape_;
  const LayerOperands& operands_;
  const Axis& axis_;
  std::int32_t rank_;
  const Source& source_;
  LayerInputs inputs_;
};

}  // namespace

std::vector<Answers> layer_stand_in_answers(const Shape& shape, const LayerOperands& operands,
                                            const Axis& axis, const Source& source) {
  const auto answer = [=](const Operand& made, Rows (LoneRank::*rows_of)(RowNumbers) const) {
    return Answers{.tensor = made.id, .rows = [=](Range asked, RowNumbers rows) {
                     const LoneRank lone(shape, operands, axis, asked.first, source);
                     return (lone.*rows_of)(rows);
                   }};
  };
  return {answer(operands.attended, &LoneRank::attended), answer(operands.mlp, &LoneRank::mlp),
          answer(operands.z, &LoneRank::z)};
}

}  // namespace commfuse

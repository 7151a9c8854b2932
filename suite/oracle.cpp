// SPDX-License-Identifier: Apache-2.0
#include "suite/oracle.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string_view>

#include "suite/oracle_attention.h"
#include "suite/oracle_linear.h"
#include "suite/oracle_projection.h"
#include "suite/rounding.h"
#include "suite/workloads/tpsp_inputs.h"

namespace commfuse {
namespace {

/// Sums of this many +-1 are exact in bf16.
constexpr std::int32_t kExactRanks = 256;

}  // namespace

/// The formulas of the tpsp workloads on global tensors. A row-parallel weight is cut over ranks
/// along its reduction; `share` says which ranks' part an answer sums.
struct Oracle::Problem {
  std::string name;
  Shape shape;
  std::int32_t ranks = 1;
  std::vector<Tensor> tensors;
  std::vector<std::vector<Fill>> partials;  // comm_only: by rank
  Source source;

  using RowNumbers = std::span<const std::int32_t>;

  [[nodiscard]] std::string_view tensor_name(const View& view) const {
    return tensors.at(view.tensor).name;
  }
  [[nodiscard]] std::int32_t first_result_row(std::int32_t rank) const {
    return rank * (shape.tokens / ranks);
  }
  [[nodiscard]] Range everyone() const { return {0, ranks}; }
  /// The columns of `total` that the ranks of a share hold.
  [[nodiscard]] Range columns(Range share, std::int32_t total) const {
    const std::int32_t width = total / ranks;
    return {share.first * width, share.count * width};
  }

  [[nodiscard]] Rows input(TpspInput input, RowNumbers rows) const {
    const Fill global = tpsp_input(shape, input);
    return input_rows(global, {0, global.view.cols}, rows, source);
  }

  [[nodiscard]] WeightPart column_parallel(TpspInput weight, Range share) const {
    return {.global = tpsp_input(shape, weight),
            .rows = columns(share, shape.ffn),
            .cols = {0, shape.hidden}};
  }

  [[nodiscard]] WeightPart row_parallel(Range share) const {
    const bool attention = name == "tpsp/attention";
    const Fill global = tpsp_input(shape, attention ? TpspInput::out : TpspInput::down);
    return {.global = global,
            .rows = {0, shape.hidden},
            .cols = columns(share, global.view.cols),
            .pieces = share.count};
  }

  [[nodiscard]] Rows mlp_hidden(Range share, RowNumbers rows) const {
    const Rows x = input(TpspInput::x, rows);
    const Rows up = linear(x, column_parallel(TpspInput::up, share), source, shape.dtype);
    if (shape.activation != Activation::swiglu) return activate(up, shape.activation, shape.dtype);
    const Rows gate = linear(x, column_parallel(TpspInput::gate, share), source, shape.dtype);
    return swiglu(gate, up, shape.dtype);
  }

  /// What the row-parallel weight is applied to.
  [[nodiscard]] Rows row_parallel_input(Range share, RowNumbers rows) const {
    if (name == "tpsp/attention") {
      return attend(shape, columns(share, shape.heads), rows, source);
    }
    if (name == "tpsp/gemm_rs") {
      return input_rows(tpsp_input(shape, TpspInput::a), columns(share, shape.ffn), rows, source);
    }
    return mlp_hidden(share, rows);
  }

  [[nodiscard]] Rows row_parallel_sum(Range share, RowNumbers rows) const {
    return linear(row_parallel_input(share, rows), row_parallel(share), source, shape.dtype);
  }

  [[nodiscard]] std::vector<std::int32_t> token_rows(std::int32_t rank, RowNumbers rows) const {
    std::vector<std::int32_t> tokens;
    for (const std::int32_t row : rows) tokens.push_back(first_result_row(rank) + row);
    return tokens;
  }

  /// comm_only: the sum over ranks of what their partial buffers were filled with.
  [[nodiscard]] Rows reduced_data(RowNumbers tokens) const {
    Rows sum(static_cast<std::int32_t>(tokens.size()), shape.hidden);
    const double storing = unit_roundoff(shape.dtype) * (ranks + 1);
    for (const std::vector<Fill>& fills : partials) {
      for (const Fill& fill : fills) {
        const Rows part = input_rows(fill, {0, sum.cols}, tokens, source);
        for (std::size_t i = 0; i < sum.value.size(); ++i) {
          sum.value[i] += part.value[i];
          sum.error[i] += storing * (1 + storing) * std::abs(part.value[i]);
        }
      }
    }
    return sum;
  }

  [[nodiscard]] Rows answer(Portion portion, std::int32_t rank, const View& output,
                            RowNumbers rows) const {
    const std::string_view tensor = tensor_name(output);
    if (tensor == "X") return input(TpspInput::x, rows);
    if (tensor == "H") {
      return linear(input(TpspInput::x, rows), column_parallel(TpspInput::up, {rank, 1}), source,
                    shape.dtype);
    }
    if (tensor == "partial") return row_parallel_sum({rank, 1}, rows);
    if (tensor != "result") {
      throw std::logic_error("the oracle has no answer for tensor " + std::string{tensor});
    }
    const std::vector<std::int32_t> tokens = token_rows(rank, rows);
    return portion == Portion::comm_only ? reduced_data(tokens)
                                         : row_parallel_sum(everyone(), tokens);
  }

  [[nodiscard]] bool exact() const {
    if (source.mode != DataMode::exact || ranks > kExactRanks) return false;
    if (name == "tpsp/attention") return code_columns(shape.tokens) <= shape.head_dim;
    if (name == "tpsp/mlp" || name == "tpsp/mlp_rs") return shape.activation == Activation::relu;
    return true;
  }
};

Oracle::Oracle(const Workload& workload, const Source& source) {
  std::vector<std::vector<Fill>> partials(static_cast<std::size_t>(workload.ranks));
  for (const Stage& stage : workload.stages) {
    if (!stage.reduce_scatter) continue;
    for (std::int32_t rank = 0; rank < workload.ranks; ++rank) {
      partials[static_cast<std::size_t>(rank)].push_back(
          partial_data(workload, stage.reduce_scatter->partial, rank));
    }
  }
  problem_ = std::make_unique<Problem>(Problem{.name = workload.name,
                                               .shape = workload.shape,
                                               .ranks = workload.ranks,
                                               .tensors = workload.tensors,
                                               .partials = std::move(partials),
                                               .source = source});
}

Oracle::~Oracle() = default;

bool Oracle::exact() const { return problem_->exact(); }

std::vector<ExpectedRow> Oracle::rows(Portion portion, std::int32_t rank, const View& output,
                                      std::span<const std::int32_t> rows) const {
  const Rows answer = problem_->answer(portion, rank, output, rows);
  const bool equal = exact();
  std::vector<ExpectedRow> expected;
  for (std::int32_t row = 0; row < answer.count; ++row) {
    const auto first = static_cast<std::ptrdiff_t>(answer.at(row, 0));
    const auto last = first + answer.cols;
    expected.push_back({{answer.value.begin() + first, answer.value.begin() + last},
                        {answer.error.begin() + first, answer.error.begin() + last}});
    if (equal) std::fill(expected.back().bound.begin(), expected.back().bound.end(), 0.0);
  }
  return expected;
}

std::optional<ExpectedRow> Oracle::projection(Portion portion, std::int32_t rank,
                                              const View& output, std::span<const double> x) const {
  const Problem& problem = *problem_;
  const bool gather = problem.name == "tpsp/ag_gemm";
  if (portion == Portion::comm_only || !(gather || problem.name == "tpsp/gemm_rs")) {
    return std::nullopt;
  }
  const bool reduced = problem.tensor_name(output) == "result";
  const Range share = reduced ? problem.everyone() : Range{rank, 1};
  const Range rows{reduced ? problem.first_result_row(rank) : 0, output.rows};
  const Fill in = tpsp_input(problem.shape, gather ? TpspInput::x : TpspInput::a);
  const WeightPart weight =
      gather ? problem.column_parallel(TpspInput::up, share) : problem.row_parallel(share);
  ExpectedRow expected = project(in, rows, weight, x, problem.source, problem.shape.dtype);
  if (exact()) std::fill(expected.bound.begin(), expected.bound.end(), 0.0);
  return expected;
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "suite/oracle.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <stdexcept>

#include "suite/answers.h"
#include "suite/oracle_projection.h"
#include "suite/rounding.h"

namespace commfuse {
namespace {

/// Sums of this many +-1 are exact in every dtype.
constexpr std::int32_t kExactRanks = 256;

using RowNumbers = std::span<const std::int32_t>;

/// A computed tensor, the ranks whose part of it an output holds, and the output's first row in it.
struct Origin {
  TensorId tensor = 0;
  Range ranks;
  std::int32_t first_row = 0;
};

std::vector<std::int32_t> shifted(RowNumbers rows, std::int32_t by) {
  std::vector<std::int32_t> result(rows.begin(), rows.end());
  for (std::int32_t& row : result) row += by;
  return result;
}

}  // namespace

struct Oracle::Problem {
  Workload workload;
  Source source;
  Answers answers;

  [[nodiscard]] const Stage* reducing_into(TensorId result) const {
    const auto stage = std::ranges::find_if(workload.stages, [&](const Stage& candidate) {
      return candidate.reduce_scatter && candidate.reduce_scatter->result == result;
    });
    return stage == workload.stages.end() ? nullptr : &*stage;
  }

  void require_output(Portion portion, const View& output) const {
    const std::vector<View> outputs = required_outputs(workload, portion);
    if (std::ranges::find(outputs, output.tensor, &View::tensor) != outputs.end()) return;
    throw std::logic_error("the oracle has no answer for tensor " +
                           workload.tensors.at(output.tensor).name);
  }

  [[nodiscard]] Origin origin(std::int32_t rank, const View& output) const {
    if (const Stage* stage = reducing_into(output.tensor)) {
      return {stage->reduce_scatter->partial, {0, workload.ranks}, rank * stage->axis.rows};
    }
    return {output.tensor, {rank, 1}, 0};
  }

  /// What moves in comm_only, where a reduce-scatter sums: what the ranks' partials were filled
  /// with.
  [[nodiscard]] Rows reduced_data(const Origin& from, RowNumbers rows) const {
    const Tensor& partial = workload.tensors[from.tensor];
    Rows sum(static_cast<std::int32_t>(rows.size()), partial.cols);
    const double storing = unit_roundoff(partial.dtype) * (workload.ranks + 1);
    for (std::int32_t rank = 0; rank < workload.ranks; ++rank) {
      const Rows part =
          input_rows(partial_data(workload, from.tensor, rank), {0, sum.cols}, rows, source);
      for (std::size_t i = 0; i < sum.value.size(); ++i) {
        sum.value[i] += part.value[i];
        sum.error[i] += storing * (1 + storing) * std::abs(part.value[i]);
      }
    }
    for (double& error : sum.error) error += underflow_error(partial.dtype) * (workload.ranks + 1);
    return sum;
  }

  /// What moves in comm_only, where a buffer is gathered: the slices that the ranks start with.
  [[nodiscard]] Rows gathered_data(TensorId buffer, RowNumbers rows) const {
    Rows result(static_cast<std::int32_t>(rows.size()), workload.tensors[buffer].cols);
    std::vector<float> values(static_cast<std::size_t>(result.cols));
    for (std::int32_t rank = 0; rank < workload.ranks; ++rank) {
      for (const Fill& fill : workload.inputs(rank)) {
        if (fill.view.tensor != buffer) continue;
        for (std::int32_t i = 0; i < result.count; ++i) {
          const std::int32_t row = rows[static_cast<std::size_t>(i)] - fill.view.row;
          if (row < 0 || row >= fill.view.rows) continue;
          fill_row(fill, source, row, values);
          std::ranges::copy(values,
                            result.value.begin() + static_cast<std::ptrdiff_t>(result.at(i, 0)));
        }
      }
    }
    return result;
  }

  [[nodiscard]] Rows answer(Portion portion, std::int32_t rank, const View& output,
                            RowNumbers rows) const {
    require_output(portion, output);
    const Origin from = origin(rank, output);
    const std::vector<std::int32_t> numbers = shifted(rows, from.first_row);
    if (portion != Portion::comm_only) return answers.rows(from.ranks, numbers);
    return reducing_into(output.tensor) ? reduced_data(from, numbers)
                                        : gathered_data(output.tensor, numbers);
  }

  [[nodiscard]] bool exact(Portion portion) const {
    const bool stays_exact = portion == Portion::comm_only || answers.exact;
    return source.mode == DataMode::exact && workload.ranks <= kExactRanks && stays_exact;
  }
};

Oracle::Oracle(const Workload& workload, const Source& source)
    : problem_(std::make_unique<Problem>(Problem{workload, source, workload.answers(source)})) {
  if (workload.outputs.size() == 1) return;
  throw std::logic_error("the oracle answers for one output, not those of " + workload.name);
}

Oracle::~Oracle() = default;

bool Oracle::exact(Portion portion) const { return problem_->exact(portion); }

std::vector<ExpectedRow> Oracle::rows(Portion portion, std::int32_t rank, const View& output,
                                      std::span<const std::int32_t> rows) const {
  const Rows answer = problem_->answer(portion, rank, output, rows);
  const bool equal = exact(portion);
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
  problem.require_output(portion, output);
  const Tensor& tensor = problem.workload.tensors[output.tensor];
  if (output.cols != tensor.cols || std::ssize(x) != tensor.cols) {
    throw std::logic_error("a projection takes all columns of " + tensor.name);
  }
  if (portion == Portion::comm_only || !problem.answers.product) return std::nullopt;
  const Origin from = problem.origin(rank, output);
  const Product product = problem.answers.product(from.ranks);
  const std::int32_t first = product.first_row + from.first_row + output.row;
  ExpectedRow expected =
      project(product.x, {first, output.rows}, product.weight, x, problem.source, tensor.dtype);
  if (exact(portion)) std::fill(expected.bound.begin(), expected.bound.end(), 0.0);
  return expected;
}

}  // namespace commfuse

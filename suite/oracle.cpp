// SPDX-License-Identifier: Apache-2.0
#include "suite/oracle.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "suite/answers.h"
#include "suite/oracle_moves.h"
#include "suite/oracle_projection.h"

namespace commfuse {
namespace {

/// Sums of this many +-1 are exact in every dtype.
constexpr std::int32_t kExactRanks = 256;

using RowNumbers = std::span<const std::int32_t>;

/// Rows of a computed tensor, of one rank or summed over several: row i of an output is its row
/// first_row + i.
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

bool has_tensor(const std::vector<Answers>& answers, TensorId id) {
  return std::ranges::find(answers, id, &Answers::tensor) != answers.end();
}

}  // namespace

struct Oracle::Problem {
  Workload workload;
  Source source;
  std::vector<Answers> scheduled;
  std::vector<Answers> computed;  // where nothing moves

  Problem(const Workload& solved, const Source& data)
      : workload(solved),
        source(data),
        scheduled(solved.answers(data, Portion::schedule)),
        computed(solved.answers(data, Portion::compute_only)) {
    for (const View& output : workload.outputs) require_answer(scheduled, made_from(output.tensor));
    for (const View& output : required_outputs(workload, Portion::compute_only)) {
      require_answer(computed, output.tensor);
    }
  }

  [[nodiscard]] const std::string& name(TensorId id) const { return workload.tensors.at(id).name; }

  void require_answer(const std::vector<Answers>& answers, TensorId id) const {
    if (has_tensor(answers, id)) return;
    throw std::logic_error(workload.name + " has no answers for tensor " + name(id));
  }

  void require_output(Portion portion, const View& output) const {
    const std::vector<View> outputs = required_outputs(workload, portion);
    if (std::ranges::find(outputs, output.tensor, &View::tensor) != outputs.end()) return;
    throw std::logic_error("the oracle has no answer for tensor " + name(output.tensor));
  }

  /// The stage that sends what others receive in this buffer.
  [[nodiscard]] const Stage* sending_into(TensorId receive) const {
    const auto stage = std::ranges::find_if(workload.stages, [&](const Stage& candidate) {
      return candidate.all_to_all && candidate.all_to_all->receive == receive;
    });
    return stage == workload.stages.end() ? nullptr : &*stage;
  }

  /// Of everything that is not received piece by piece.
  [[nodiscard]] Origin origin(std::int32_t rank, TensorId output) const {
    for (const Stage& stage : workload.stages) {
      if (stage.reduce_scatter && stage.reduce_scatter->result == output) {
        return {stage.reduce_scatter->partial, {0, workload.ranks}, rank * stage.axis.rows};
      }
      if (stage.all_reduce && stage.all_reduce->result == output) {
        return {stage.all_reduce->partial, {0, workload.ranks}, 0};
      }
    }
    return {output, {rank, 1}, 0};
  }

  /// The tensor whose rows an output's are.
  [[nodiscard]] TensorId made_from(TensorId output) const {
    const Stage* sender = sending_into(output);
    return sender ? sender->all_to_all->send : origin(0, output).tensor;
  }

  [[nodiscard]] const Answers& answers(Portion portion, TensorId made) const {
    const auto& all = portion == Portion::schedule ? scheduled : computed;
    return *std::ranges::find(all, made, &Answers::tensor);
  }

  /// Rows of a send buffer.
  [[nodiscard]] Rows sent(Portion portion, TensorId send, std::int32_t sender,
                          RowNumbers rows) const {
    if (portion != Portion::comm_only) return answers(portion, send).rows({sender, 1}, rows);
    return input_rows(stand_in_data(workload, send, sender), {0, workload.tensors[send].cols}, rows,
                      source);
  }

  /// Row j * axis.rows + i of what `rank` receives is row rank * axis.rows + i of what rank j
  /// sends.
  [[nodiscard]] Rows received(Portion portion, std::int32_t rank, const Stage& stage,
                              RowNumbers rows) const {
    const auto [send, receive] = *stage.all_to_all;
    const std::int32_t block = stage.axis.rows;
    Rows result(static_cast<std::int32_t>(rows.size()), workload.tensors[receive].cols);
    for (std::int32_t sender = 0; sender < workload.ranks; ++sender) {
      std::vector<std::int32_t> numbers;
      std::vector<std::int32_t> targets;
      for (std::int32_t i = 0; i < result.count; ++i) {
        const std::int32_t row = rows[static_cast<std::size_t>(i)];
        if (row / block != sender) continue;
        numbers.push_back(rank * block + row % block);
        targets.push_back(i);
      }
      if (numbers.empty()) continue;
      const Rows part = sent(portion, send, sender, numbers);
      for (std::int32_t i = 0; i < part.count; ++i) {
        copy_row(part, i, result, targets[static_cast<std::size_t>(i)]);
      }
    }
    return result;
  }

  [[nodiscard]] Rows answer(Portion portion, std::int32_t rank, const View& output,
                            RowNumbers rows) const {
    require_output(portion, output);
    if (portion == Portion::compute_only) {
      return answers(portion, output.tensor).rows({rank, 1}, rows);
    }
    if (const Stage* sender = sending_into(output.tensor)) {
      return received(portion, rank, *sender, rows);
    }
    const Origin from = origin(rank, output.tensor);
    const std::vector<std::int32_t> numbers = shifted(rows, from.first_row);
    if (portion == Portion::schedule)
      return answers(portion, from.tensor).rows(from.ranks, numbers);
    return from.tensor == output.tensor ? gathered_data(workload, output.tensor, numbers, source)
                                        : reduced_data(workload, from.tensor, numbers, source);
  }

  [[nodiscard]] bool exact(Portion portion, const View& output) const {
    require_output(portion, output);
    const bool stays_exact =
        portion == Portion::comm_only || answers(portion, made_from(output.tensor)).exact;
    return source.mode == DataMode::exact && workload.ranks <= kExactRanks && stays_exact;
  }
};

Oracle::Oracle(const Workload& workload, const Source& source)
    : problem_(std::make_unique<Problem>(workload, source)) {}

Oracle::~Oracle() = default;

bool Oracle::exact(Portion portion, const View& output) const {
  return problem_->exact(portion, output);
}

bool Oracle::exact(Portion portion) const {
  return std::ranges::all_of(required_outputs(problem_->workload, portion),
                             [&](const View& output) { return exact(portion, output); });
}

std::vector<ExpectedRow> Oracle::rows(Portion portion, std::int32_t rank, const View& output,
                                      std::span<const std::int32_t> rows) const {
  const Rows answer = problem_->answer(portion, rank, output, rows);
  const bool equal = exact(portion, output);
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
  if (portion == Portion::comm_only || problem.sending_into(output.tensor)) return std::nullopt;
  const Origin from = problem.origin(rank, output.tensor);
  const Answers& answers = problem.answers(portion, from.tensor);
  if (!answers.product) return std::nullopt;
  const Product product = answers.product(from.ranks);
  const std::int32_t first = product.first_row + from.first_row + output.row;
  ExpectedRow expected =
      project(product.x, {first, output.rows}, product.weight, x, problem.source, tensor.dtype);
  if (exact(portion, output)) std::fill(expected.bound.begin(), expected.bound.end(), 0.0);
  return expected;
}

}  // namespace commfuse

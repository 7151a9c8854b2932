// SPDX-License-Identifier: Apache-2.0
#include "tests/suite/moving_workload.h"

#include <stdexcept>
#include <vector>

#include "suite/workloads/phases.h"
#include "suite/workloads/workload_builder.h"

namespace commfuse {
namespace {

using Moved = MovingWorkload::Id;
using RowNumbers = std::span<const std::int32_t>;

constexpr std::int32_t kBlock = 2;

Fill global(std::uint32_t number, std::int32_t rows, std::int32_t cols) {
  const Content content =
      number == Moved::x || number == Moved::g ? Content::activation : Content::weight;
  return {.view = {.rows = rows, .cols = cols},
          .content = content,
          .global = 900 + number,
          .width = cols};
}

void add(Rows& sum, const Rows& part) {
  for (std::size_t i = 0; i < sum.value.size(); ++i) {
    sum.value[i] += part.value[i];
    sum.error[i] += part.error[i];
    sum.scale[i] += part.scale[i];
  }
}

/// The tensors of all ranks, one row at a time and with no thought for speed.
class Solution {
 public:
  Solution(const Workload& workload, const Source& source, Portion portion)
      : workload_(workload), source_(source), alone_(portion == Portion::compute_only) {}

  [[nodiscard]] Rows row(Moved tensor, std::int32_t rank, std::int32_t row) const {
    switch (tensor) {
      case Moved::send:
        return times(input(global(Moved::x, rows() * workload_.ranks, 3), rank * rows() + row),
                     Moved::w1);
      case Moved::received:
        if (alone_) return stand_in(tensor, rank, row);
        return this->row(Moved::send, row / kBlock, rank * kBlock + row % kBlock);
      case Moved::partial:
        return times(this->row(Moved::received, rank, row), Moved::w2);
      case Moved::scattered:
        if (alone_) return stand_in(tensor, rank, row);
        return reduced(Moved::partial, rank * kBlock + row);
      case Moved::last:
        return times(this->row(Moved::scattered, rank, row), Moved::w4);
      case Moved::share:
        return times(gathered(row), Moved::w3, rank);
      default:
        break;
    }
    throw std::logic_error("nobody asks for that");
  }

  [[nodiscard]] Rows reduced(Moved partial, std::int32_t row) const {
    Rows sum = this->row(partial, 0, row);
    for (std::int32_t rank = 1; rank < workload_.ranks; ++rank) {
      add(sum, this->row(partial, rank, row));
    }
    // Every addition may be stored again: as much as all partials together.
    for (double& error : sum.error) error *= 1 + workload_.ranks;
    return sum;
  }

 private:
  [[nodiscard]] std::int32_t rows() const { return kBlock * workload_.ranks; }
  [[nodiscard]] Rows input(const Fill& fill, std::int32_t row) const {
    return input_rows(fill, {0, fill.view.cols}, std::vector{row}, source_);
  }
  [[nodiscard]] Rows stand_in(Moved tensor, std::int32_t rank, std::int32_t row) const {
    return input(stand_in_data(workload_, tensor, rank), row);
  }
  [[nodiscard]] Rows gathered(std::int32_t row) const {
    const bool filled = workload_.inputs(0).back().view.tensor == Moved::g;
    return filled ? input(global(Moved::g, rows(), 3), row) : stand_in(Moved::g, row / kBlock, row);
  }
  /// Weights are all alike, or each rank has the rank-th piece.
  [[nodiscard]] Rows times(const Rows& x, Moved weight, std::int32_t rank = 0) const {
    const Tensor& w = workload_.tensors[weight];
    return linear(x,
                  {.global = global(weight, w.rows * workload_.ranks, w.cols),
                   .rows = {rank * w.rows, w.rows},
                   .cols = {0, w.cols}},
                  source_, workload_.shape.dtype);
  }

  const Workload& workload_;
  Source source_;
  bool alone_;
};

std::vector<Answers> answers(const Workload& workload, const Source& source, Portion portion) {
  std::vector<Answers> all;
  for (const Moved tensor : {Moved::send, Moved::partial, Moved::share, Moved::last}) {
    all.push_back({.tensor = tensor,
                   .exact = tensor != Moved::last,  // to show that outputs may differ
                   .rows =
                       [=](Range ranks, RowNumbers numbers) {
                         const Solution solution(workload, source, portion);
                         Rows result(static_cast<std::int32_t>(numbers.size()),
                                     workload.tensors[tensor].cols);
                         for (std::int32_t i = 0; i < result.count; ++i) {
                           const std::int32_t number = numbers[static_cast<std::size_t>(i)];
                           const Rows row = ranks.count == 1
                                                ? solution.row(tensor, ranks.first, number)
                                                : solution.reduced(tensor, number);
                           for (std::int32_t j = 0; j < result.cols; ++j) {
                             result.value[result.at(i, j)] = row.value[row.at(0, j)];
                             result.error[result.at(i, j)] = row.error[row.at(0, j)];
                           }
                         }
                         return result;
                       },
                   .product = {}});
  }
  // A single gemm: of X, whatever happens to it afterwards.
  all.front().product = [=](Range ranks) {
    return Product{
        global(Moved::x, kBlock * workload.ranks * workload.ranks, 3),
        {.global = global(Moved::w1, 4 * workload.ranks, 3), .rows = {0, 4}, .cols = {0, 3}},
        ranks.first * kBlock * workload.ranks};
  };
  return all;
}

}  // namespace

Workload MovingWorkload::build(std::int32_t ranks, DType dtype, bool filled) {
  Shape shape;
  shape.dtype = dtype;
  WorkloadBuilder builder("test/moving", shape, ranks);
  const Axis axis{.ranks = ranks, .rows = kBlock};
  const std::int32_t rows = kBlock * ranks;
  const Operand x = builder.tensor("X", rows, 3);
  const Operand w1 = builder.weight("W1", 4, 3);
  const Operand send = builder.tensor("send", rows, 4);
  const Operand received = builder.tensor("received", rows, 4);
  const Operand w2 = builder.weight("W2", 2, 4);
  const Operand partial = builder.tensor("partial", rows, 2);
  const Operand scattered = builder.tensor("scattered", kBlock, 2);
  const Operand g = builder.tensor("G", rows, 3);
  const Operand w3 = builder.weight("W3", 5, 3);
  const Operand share = builder.tensor("share", rows, 5);
  const Operand sum = builder.tensor("sum", rows, 5);
  const Operand w4 = builder.weight("W4", 3, 2);
  const Operand last = builder.tensor("last", kBlock, 3);
  builder.inputs([=](std::int32_t rank) {
    const auto weight = [&](const Operand& w, std::int32_t piece) {
      return piece_of(global(w.id, w.tensor.rows * ranks, w.tensor.cols), w.all(),
                      piece * w.tensor.rows, 0);
    };
    std::vector<Fill> fills{piece_of(global(Moved::x, rows * ranks, 3), x.all(), rank * rows, 0),
                            weight(w1, 0), weight(w2, 0), weight(w3, rank), weight(w4, 0)};
    if (filled) {
      fills.push_back(
          piece_of(global(Moved::g, rows, 3), g.rows(rank * kBlock, kBlock), rank * kBlock, 0));
    }
    return fills;
  });
  builder.stage({.name = "exchange",
                 .axis = axis,
                 .phases = {last_linear(axis, send, x, w1)},
                 .all_to_all = AllToAll{send.id, received.id}});
  builder.stage({.name = "reduce",
                 .axis = axis,
                 .phases = {last_linear(axis, partial, received, w2)},
                 .pieces = Pieces{received.id},
                 .reduce_scatter = ReduceScatter{partial.id, scattered.id}});
  builder.stage({.name = "sum",
                 .axis = axis,
                 .phases = {last_linear(axis, share, g, w3)},
                 .gather = Gather{g.id},
                 .all_reduce = AllReduce{share.id, sum.id}});
  builder.stage({.name = "last",
                 .axis = {.ranks = ranks, .rows = 1},
                 .phases = {[=](const Tile&, const Target&) -> std::vector<Compute> {
                   return {Gemm{.d = last.all(), .a = scattered.all(), .b = w4.all(), .c = {}}};
                 }}});
  for (const Operand& output : {received, sum, last}) builder.output(output);
  Workload workload = builder.take();
  workload.answers = [bare = workload](const Source& source, Portion portion) {
    return answers(bare, source, portion);
  };
  return workload;
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/dp_optimizer.h"

#include <utility>

#include "suite/oracle_linear.h"
#include "suite/workloads/dp_gradient_answers.h"
#include "suite/workloads/dp_layers.h"

namespace commfuse {
namespace {

using RowNumbers = std::span<const std::int32_t>;

bool is_narrow(const OptimizerTensors& tensors) { return is_narrow(tensors.weights.tensor.dtype); }

std::int32_t share_of(const OptimizerTensors& tensors) { return tensors.w.tensor.rows; }

/// All of a bucket's master weights or moments.
Fill state_of(const OptimizerTensors& tensors, std::size_t number, DpInput input) {
  return dp_input(input, number, Content::activation, tensors.weights.tensor.rows,
                  tensors.weights.tensor.cols);
}

/// On the tile's part of the own share.
Phase step(const Axis& axis, const OptimizerTensors& tensors) {
  return [=](const Tile& tile, const Target&) -> std::vector<Compute> {
    const View weights = tile_rows(tensors.weights.id, tensors.weights.tensor, axis, tile);
    const auto part_of = [&](const Operand& share) {
      return share.rows(tile.part * weights.rows, weights.rows);
    };
    Adam adam{.new_w = weights,
              .new_m = part_of(tensors.new_m),
              .new_v = part_of(tensors.new_v),
              .w = part_of(tensors.w),
              .m = part_of(tensors.m),
              .v = part_of(tensors.v),
              .g = part_of(tensors.gradient),
              .copy = {}};
    if (is_narrow(tensors)) {
      adam.new_w = part_of(tensors.new_w);
      adam.copy = weights;
    }
    return {adam};
  };
}

std::vector<std::int32_t> shifted(RowNumbers rows, std::int32_t by) {
  std::vector<std::int32_t> result(rows.begin(), rows.end());
  for (std::int32_t& row : result) row += by;
  return result;
}

/// The answers of one bucket.
class Steps {
 public:
  Steps(OptimizerTensors tensors, std::size_t number, std::int32_t ranks, Answers reduced,
        const Source& source, Portion portion)
      : tensors_(std::move(tensors)),
        number_(number),
        ranks_(ranks),
        reduced_(std::move(reduced)),
        source_(source),
        alone_(portion == Portion::compute_only) {}

  /// What a rank gets for these rows of its share.
  [[nodiscard]] AdamRows of_share(std::int32_t rank, RowNumbers rows) const {
    return of_bucket(rank, shifted(rows, rank * share_of(tensors_)));
  }

  /// Rows of the gathered weights, as `rank` sees them.
  [[nodiscard]] Rows weights(std::int32_t rank, RowNumbers rows) const {
    if (!alone_) return stored(of_bucket(rank, rows).w);
    const Tensor& tensor = tensors_.weights.tensor;
    Rows result(static_cast<std::int32_t>(rows.size()), tensor.cols);
    for (std::int32_t i = 0; i < result.count; ++i) {
      const RowNumbers row = rows.subspan(static_cast<std::size_t>(i), 1);
      const std::int32_t owner = row[0] / share_of(tensors_);
      const Rows values =
          owner == rank ? stored(of_bucket(rank, row).w) : stand_in(tensors_.weights, owner, row);
      place(values, {i}, result);
    }
    return result;
  }

 private:
  /// Rows of the bucket; where nothing moves, all in the share of `rank`.
  [[nodiscard]] AdamRows of_bucket(std::int32_t rank, RowNumbers rows) const {
    const auto state = [&](DpInput input) {
      const Fill fill = state_of(tensors_, number_, input);
      return input_rows(fill, {0, fill.view.cols}, rows, source_);
    };
    const Rows gradient =
        alone_ ? stand_in(tensors_.gradient, rank, shifted(rows, -rank * share_of(tensors_)))
               : reduced_.rows({0, ranks_}, rows);
    return adam(state(DpInput::master), state(DpInput::moment), state(DpInput::square), gradient);
  }

  [[nodiscard]] Rows stand_in(const Operand& of, std::int32_t rank, RowNumbers rows) const {
    return input_rows(stand_in_data(of.id, of.tensor, ranks_, rank), {0, of.tensor.cols}, rows,
                      source_);
  }

  [[nodiscard]] Rows stored(Rows weights) const {
    return is_narrow(tensors_) ? rounded(weights, tensors_.weights.tensor.dtype) : weights;
  }

  OptimizerTensors tensors_;
  std::size_t number_;
  std::int32_t ranks_;
  Answers reduced_;
  Source source_;
  bool alone_;  // gradients and the weights of others are not what ranks computed
};

}  // namespace

OptimizerTensors add_optimizer(WorkloadBuilder& builder, const Bucket& bucket,
                               const Operand& gradient, const Shape& shape, std::int32_t ranks) {
  const auto share = [&](const char* prefix) {
    return builder.tensor(prefix + bucket.name, bucket.rows() / ranks, bucket.cols, DType::f32);
  };
  OptimizerTensors tensors;
  tensors.w = share("master_");
  tensors.m = share("m_");
  tensors.v = share("v_");
  if (is_narrow(shape.dtype)) tensors.new_w = share("new_master_");
  tensors.new_m = share("new_m_");
  tensors.new_v = share("new_v_");
  tensors.weights = builder.tensor("new_W_" + bucket.name, bucket.rows(), bucket.cols);
  tensors.gradient = gradient;
  return tensors;
}

void add_optimizer_stages(WorkloadBuilder& builder, const Bucket& bucket,
                          const OptimizerTensors& tensors, std::int32_t ranks) {
  const Axis axis{.ranks = ranks, .rows = share_of(tensors)};
  Stage own{.name = "step_" + bucket.name, .axis = axis, .phases = {step(axis, tensors)}};
  own.own_slice = true;
  builder.stage(std::move(own));
  builder.stage({.name = "gather_" + bucket.name,
                 .axis = axis,
                 .phases = {},
                 .gather = Gather{tensors.weights.id}});
  builder.output(tensors.weights);
  if (is_narrow(tensors)) builder.output(tensors.new_w);
  builder.output(tensors.new_m);
  builder.output(tensors.new_v);
}

std::vector<Fill> optimizer_inputs(const OptimizerTensors& tensors, std::size_t number,
                                   std::int32_t ranks, std::int32_t rank) {
  const std::int32_t first = rank * (tensors.weights.tensor.rows / ranks);
  const auto share = [&](const Operand& of, DpInput input) {
    return piece_of(state_of(tensors, number, input), of.all(), first, 0);
  };
  return {share(tensors.w, DpInput::master), share(tensors.m, DpInput::moment),
          share(tensors.v, DpInput::square)};
}

std::vector<Answers> optimizer_answers(const OptimizerTensors& tensors, std::size_t number,
                                       std::int32_t ranks, const Answers& reduced,
                                       const Source& source, Portion portion) {
  const Steps steps(tensors, number, ranks, reduced, source, portion);
  const auto share = [&](const Operand& of, Rows AdamRows::*part) {
    return Answers{.tensor = of.id,
                   .exact = false,
                   .rows = [=](Range asked,
                               RowNumbers rows) { return steps.of_share(asked.first, rows).*part; },
                   .product = {}};
  };
  std::vector<Answers> answers{share(tensors.new_m, &AdamRows::m),
                               share(tensors.new_v, &AdamRows::v)};
  if (is_narrow(tensors)) answers.push_back(share(tensors.new_w, &AdamRows::w));
  answers.push_back(
      {.tensor = tensors.weights.id,
       .exact = false,
       .rows = [=](Range asked, RowNumbers rows) { return steps.weights(asked.first, rows); },
       .product = {}});
  return answers;
}

}  // namespace commfuse

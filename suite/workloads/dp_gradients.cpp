// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/dp_gradients.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "suite/workloads/dp_buckets.h"
#include "suite/workloads/dp_gradient_answers.h"
#include "suite/workloads/dp_layers.h"
#include "suite/workloads/dp_optimizer.h"
#include "suite/workloads/phases.h"
#include "suite/workloads/workload_builder.h"

namespace commfuse {
namespace {

/// The tensors of one map.
struct MapTensors {
  Operand dy, x;
  Operand w;  // of all maps but the first
};

struct BucketTensors {
  Bucket bucket;
  Operand partial, result;
  OptimizerTensors optimizer;  // only where weights are stepped
};

/// A backward pass while it is put together.
class BackwardPass {
 public:
  BackwardPass(std::string name, const Shape& shape, std::int32_t ranks, GradientSum sum,
               WeightsFrom weights)
      : builder_(std::move(name), shape, ranks),
        shape_(shape),
        ranks_(ranks),
        sum_(sum),
        weights_(weights),
        pass_(shape, ranks) {
    for (const DpLinear& map : pass_.linears) add_map(map);
    for (const Bucket& bucket : dp_buckets(shape)) add_bucket(bucket);
  }

  Workload build() {
    for (std::size_t i = maps_.size(); i-- > 0;) add_stages(i);
    for (const BucketTensors& tensors : buckets_) {
      if (steps()) add_optimizer_stages(builder_, tensors.bucket, tensors.optimizer, ranks_);
    }
    Workload workload = builder_.take();
    workload.inputs = [pass = *this](std::int32_t rank) { return pass.inputs_of(rank); };
    workload.answers = [pass = *this](const Source& source, Portion portion) {
      return pass.answers_of(source, portion);
    };
    return workload;
  }

 private:
  [[nodiscard]] bool is_cut() const { return sum_ != GradientSum::everywhere; }
  [[nodiscard]] bool steps() const { return sum_ == GradientSum::stepped; }

  void add_map(const DpLinear& map) {
    MapTensors tensors;
    tensors.dy = builder_.tensor("dY_" + map.name, pass_.tokens, map.out);
    tensors.x = builder_.tensor("X_" + map.name, pass_.tokens, map.in);
    if (!maps_.empty()) {
      tensors.w = weights_ == WeightsFrom::held ? builder_.weight("W_" + map.name, map.out, map.in)
                                                : builder_.tensor("W_" + map.name, map.out, map.in);
    }
    maps_.push_back(std::move(tensors));
  }

  void add_bucket(const Bucket& bucket) {
    const std::int32_t rows = is_cut() ? bucket.rows() / ranks_ : bucket.rows();
    const auto tensor = [&](const char* prefix, std::int32_t count) {
      return builder_.tensor(prefix + bucket.name, count, bucket.cols, shape_.gradient);
    };
    BucketTensors tensors{bucket, tensor("partial_", bucket.rows()), tensor("dW_", rows),
                          OptimizerTensors{}};
    if (steps()) {
      tensors.optimizer = add_optimizer(builder_, bucket, tensors.result, shape_, ranks_);
    }
    buckets_.push_back(std::move(tensors));
  }

  void add_stages(std::size_t i) {
    const bool gathered = weights_ == WeightsFrom::gathered;
    if (i > 0 && gathered) gather_weight(i);
    if (i > 0 && !gathered) add_input_gradient(i);
    for (const BucketTensors& tensors : buckets_) {
      if (tensors.bucket.maps.back() == i) add_weight_gradients(tensors);
    }
    if (i > 0 && gathered) add_input_gradient(i);
  }

  void gather_weight(std::size_t i) {
    const DpLinear& map = pass_.linears[i];
    builder_.stage({.name = "gather_" + map.name,
                    .axis = {.ranks = ranks_, .rows = map.out / ranks_},
                    .phases = {},
                    .gather = Gather{maps_[i].w.id}});
  }

  void add_input_gradient(std::size_t i) {
    const DpLinear& map = pass_.linears[i];
    const Axis inputs{.ranks = ranks_, .rows = map.in / ranks_};
    builder_.stage({.name = "dgrad_" + map.name,
                    .axis = inputs,
                    .phases = {last_input_gradient_by_features(inputs, maps_[i - 1].dy, maps_[i].dy,
                                                               maps_[i].w)}});
  }

  void add_weight_gradients(const BucketTensors& tensors) {
    std::vector<WeightGradient> maps;
    for (const std::size_t i : tensors.bucket.maps) maps.push_back({maps_[i].dy, maps_[i].x});
    const Axis axis{.ranks = ranks_, .rows = tensors.bucket.rows() / ranks_};
    Stage stage{.name = "wgrad_" + tensors.bucket.name,
                .axis = axis,
                .phases = {last_weight_gradients(axis, tensors.partial, maps)}};
    if (is_cut()) {
      stage.reduce_scatter = ReduceScatter{tensors.partial.id, tensors.result.id};
    } else {
      stage.all_reduce = AllReduce{tensors.partial.id, tensors.result.id};
    }
    builder_.stage(std::move(stage));
    builder_.output(tensors.result);
  }

  [[nodiscard]] std::vector<Fill> inputs_of(std::int32_t rank) const {
    const std::int32_t token = rank * pass_.tokens;
    std::vector<Fill> fills{piece_of(pass_.dy, maps_.back().dy.all(), token, 0)};
    for (std::size_t i = 0; i < maps_.size(); ++i) {
      fills.push_back(piece_of(transpose_of(pass_.xt[i]), maps_[i].x.all(), token, 0));
      if (i == 0) continue;
      const std::int32_t rows = pass_.linears[i].out / ranks_;
      const bool held = weights_ == WeightsFrom::held;
      const std::int32_t first = held ? 0 : rank * rows;
      fills.push_back(piece_of(transpose_of(pass_.weight(i)),
                               held ? maps_[i].w.all() : maps_[i].w.rows(first, rows), first, 0));
    }
    for (std::size_t number = 0; number < buckets_.size() && steps(); ++number) {
      const auto states = optimizer_inputs(buckets_[number].optimizer, number, ranks_, rank);
      fills.insert(fills.end(), states.begin(), states.end());
    }
    return fills;
  }

  [[nodiscard]] std::vector<Answers> answers_of(const Source& source, Portion portion) const {
    std::vector<Answers> all;
    for (std::size_t number = 0; number < buckets_.size(); ++number) {
      const BucketTensors& tensors = buckets_[number];
      all.push_back(gradient_answers(tensors.partial.id, tensors.bucket, pass_, shape_, source));
      if (!steps()) continue;
      const auto stepped =
          optimizer_answers(tensors.optimizer, number, ranks_, all.back(), source, portion);
      all.insert(all.end(), stepped.begin(), stepped.end());
    }
    return all;
  }

  WorkloadBuilder builder_;
  Shape shape_;
  std::int32_t ranks_;
  GradientSum sum_;
  WeightsFrom weights_;
  DpBackward pass_;
  std::vector<MapTensors> maps_;
  std::vector<BucketTensors> buckets_;
};

}  // namespace

Workload gradients(std::string name, const Shape& shape, std::int32_t ranks, GradientSum sum,
                   WeightsFrom weights) {
  return BackwardPass(std::move(name), shape, ranks, sum, weights).build();
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/plan_exchange.h"

#include "harness/world/wire.h"

namespace commfuse {
namespace {

struct TensorSize {
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  DType dtype = DType::f32;
};

std::vector<TensorSize> sizes_of(const Plan& plan) {
  std::vector<TensorSize> sizes;
  for (const Tensor& tensor : plan.tensors) {
    sizes.push_back({tensor.rows, tensor.cols, tensor.dtype});
  }
  return sizes;
}

template <class Value>
std::vector<std::vector<Value>> gather_values(World& group, const std::vector<Value>& values) {
  std::vector<std::vector<Value>> by_rank;
  for (const auto& bytes : group.gather(std::as_bytes(std::span(values)), 0)) {
    by_rank.push_back(values_of<Value>(bytes));
  }
  return by_rank;
}

}  // namespace

std::vector<Plan> gather_plans(World& group, const Plan& plan) {
  const auto sizes = gather_values(group, sizes_of(plan));
  auto ops = gather_values(group, plan.ops);
  auto messages = gather_values(group, plan.messages);
  auto dependencies = gather_values(group, plan.dependencies);
  std::vector<Plan> plans(ops.size());
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    Plan& theirs = plans[rank];
    theirs.rank = static_cast<std::int32_t>(rank);
    theirs.ranks = group.ranks();
    theirs.portion = plan.portion;
    theirs.workload_tensors = plan.workload_tensors;
    for (const TensorSize& size : sizes[rank]) {
      theirs.tensors.push_back({"", size.rows, size.cols, size.dtype});
    }
    theirs.ops = std::move(ops[rank]);
    theirs.messages = std::move(messages[rank]);
    theirs.dependencies = std::move(dependencies[rank]);
    theirs.communicates = plan.communicates;
  }
  return plans;
}

}  // namespace commfuse

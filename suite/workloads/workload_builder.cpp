// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/workload_builder.h"

#include <utility>

namespace commfuse {

WorkloadBuilder::WorkloadBuilder(std::string name, const Shape& shape, std::int32_t ranks) {
  workload_.name = std::move(name);
  workload_.shape = shape;
  workload_.ranks = ranks;
}

Operand WorkloadBuilder::tensor(std::string name, std::int32_t rows, std::int32_t cols) {
  return tensor(std::move(name), rows, cols, workload_.shape.dtype);
}

Operand WorkloadBuilder::tensor(std::string name, std::int32_t rows, std::int32_t cols,
                                DType dtype) {
  const auto id = static_cast<TensorId>(workload_.tensors.size());
  workload_.tensors.push_back({std::move(name), rows, cols, dtype});
  return {id, workload_.tensors.back()};
}

Operand WorkloadBuilder::gradient(std::string name, const Operand& of) {
  return tensor(std::move(name), of.tensor.rows, of.tensor.cols, DType::f32);
}

Operand WorkloadBuilder::weight(std::string name, std::int32_t rows, std::int32_t cols) {
  Operand weight = tensor(std::move(name), rows, cols);
  workload_.weights.push_back(weight.id);
  return weight;
}

void WorkloadBuilder::inputs(std::function<std::vector<Fill>(std::int32_t rank)> inputs) {
  workload_.inputs = std::move(inputs);
}

void WorkloadBuilder::answers(
    std::function<std::vector<Answers>(const Source& source, Portion portion)> answers) {
  workload_.answers = std::move(answers);
}

void WorkloadBuilder::stage(Stage stage) {
  workload_.model_flops += model_flops(stage);
  workload_.hardware_flops += flops(stage);
  workload_.stages.push_back(std::move(stage));
}

void WorkloadBuilder::output(const Operand& operand) { workload_.outputs.push_back(operand.all()); }

void WorkloadBuilder::whole_layer(Pass pass) { workload_.layer = pass; }

Workload WorkloadBuilder::take() { return std::move(workload_); }

}  // namespace commfuse

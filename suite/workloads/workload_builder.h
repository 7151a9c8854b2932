// SPDX-License-Identifier: Apache-2.0
// Puts a workload together: tensors get their ids in the order in which they are added.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "suite/workload.h"

namespace commfuse {

/// A run of columns.
struct Columns {
  std::int32_t first = 0;
  std::int32_t count = 0;
};

/// A tensor of a workload together with its id, or some columns of it.
struct Operand {
  TensorId id = 0;
  Tensor tensor;
  std::optional<Columns> cut = {};

  [[nodiscard]] View all() const { return columns_of(whole(id, tensor)); }
  [[nodiscard]] View rows(std::int32_t row, std::int32_t count) const {
    return columns_of(rows_of(id, tensor, row, count));
  }
  [[nodiscard]] Operand columns(std::int32_t first, std::int32_t count) const {
    return {id, tensor, Columns{first, count}};
  }
  /// The operand's columns of a view that has all of the tensor's.
  [[nodiscard]] View columns_of(View view) const {
    if (cut) {
      view.col = cut->first;
      view.cols = cut->count;
    }
    return view;
  }
};

class WorkloadBuilder {
 public:
  WorkloadBuilder(std::string name, const Shape& shape, std::int32_t ranks);

  /// Of the shape's dtype.
  Operand tensor(std::string name, std::int32_t rows, std::int32_t cols);
  Operand tensor(std::string name, std::int32_t rows, std::int32_t cols, DType dtype);
  /// A gradient that is summed, of the same shape as what it is of: fp32, as Megatron-LM keeps it.
  Operand gradient(std::string name, const Operand& of);
  Operand weight(std::string name, std::int32_t rows, std::int32_t cols);
  void inputs(std::function<std::vector<Fill>(std::int32_t rank)> inputs);
  void answers(std::function<std::vector<Answers>(const Source& source, Portion portion)> answers);
  void stage(Stage stage);
  void output(const Operand& operand);
  /// The stages are this pass of one whole transformer layer.
  void whole_layer(Pass pass);
  /// Gives the workload up; the builder is empty afterwards.
  Workload take();

 private:
  Workload workload_;
};

}  // namespace commfuse

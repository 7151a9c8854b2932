// SPDX-License-Identifier: Apache-2.0
// The tensors of all ranks as doubles in one process. Every value that is stored is rounded to the
// dtype of its tensor, so that what is compared is what a real executor could hold.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "impls/plan.h"

namespace commfuse {

/// `value` as a tensor of that dtype holds it: rounded to fp32 (the accumulator of every kernel),
/// then to the dtype, each time to nearest even.
double rounded(double value, DType dtype);

class ReferenceMemory {
 public:
  /// Space for the tensors of the plans of ranks 0, 1, ...; everything is NaN.
  explicit ReferenceMemory(std::span<const Plan> plans);

  void poison();
  void poison(std::int32_t rank, const View& view);

  /// Packed row `row` of the view (0 <= row < view.total_rows()), view.cols values.
  [[nodiscard]] std::span<const double> row(std::int32_t rank, const View& view,
                                            std::int64_t row) const;
  [[nodiscard]] std::vector<double> read(std::int32_t rank, const View& view) const;
  /// Rounds and stores; `packed` has view.elements() values.
  void write(std::int32_t rank, const View& view, std::span<const double> packed);

  /// Element at packed index `index` of the view: its row and column within the tensor.
  struct Place {
    std::int32_t row = 0;
    std::int32_t col = 0;
  };
  [[nodiscard]] static Place place(const View& view, std::int64_t index);

  [[nodiscard]] const Tensor& tensor(std::int32_t rank, TensorId id) const {
    return ranks_[static_cast<std::size_t>(rank)].tensors[id];
  }

 private:
  struct Rank {
    std::vector<Tensor> tensors;
    std::vector<std::vector<double>> values;
  };
  std::vector<Rank> ranks_;
};

}  // namespace commfuse

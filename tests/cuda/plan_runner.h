// SPDX-License-Identifier: Apache-2.0
// fp32 tensors in host memory behind a DeviceStorage, and planned products done there by plain
// loops.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "harness/cuda/device_storage.h"
#include "harness/cuda/matmul.h"

namespace commfuse {

class PlanTensors {
 public:
  static constexpr float kUnwritten = -777.0F;

  /// Filled with kUnwritten.
  TensorId add(std::int32_t rows, std::int32_t cols, DType dtype = DType::f32) {
    const auto id = static_cast<TensorId>(tensors_.size());
    tensors_.push_back({"t" + std::to_string(id), rows, cols, dtype});
    blocks_.emplace_back(static_cast<std::size_t>(tensors_.back().elements()), kUnwritten);
    return id;
  }
  TensorId add_random(std::int32_t rows, std::int32_t cols) {
    const TensorId id = add(rows, cols);
    std::uniform_real_distribution<float> values(-1.0F, 1.0F);
    for (float& value : blocks_.back()) value = values(generator_);
    return id;
  }

  [[nodiscard]] DeviceStorage storage() {
    std::vector<std::byte*> addresses;
    for (std::vector<float>& block : blocks_) {
      addresses.push_back(reinterpret_cast<std::byte*>(block.data()));
    }
    return {tensors_, addresses};
  }

  [[nodiscard]] View all(TensorId id) const { return whole(id, tensors_[id]); }
  [[nodiscard]] std::vector<float>& values(TensorId id) { return blocks_[id]; }
  /// Of the packed form.
  [[nodiscard]] double at(const View& view, std::int64_t row, std::int64_t col) const {
    const std::int64_t strip = row / view.rows;
    const std::int64_t in_tensor = view.row + strip * view.row_step + row % view.rows;
    const std::int64_t element =
        in_tensor * tensors_[view.tensor].cols + view.col + strip * view.col_step + col;
    return blocks_[view.tensor].at(static_cast<std::size_t>(element));
  }
  [[nodiscard]] std::int64_t written(TensorId id) const {
    std::int64_t count = 0;
    for (const float value : blocks_[id]) count += value == kUnwritten ? 0 : 1;
    return count;
  }

 private:
  std::vector<Tensor> tensors_;
  std::vector<std::vector<float>> blocks_;
  std::mt19937 generator_{7};
};

/// Of fp32 matrices.
inline void run_on_host(const Matmul& matmul) {
  const auto at = [](const BatchedMatrix& matrix, std::int64_t batch, std::int64_t row,
                     std::int64_t col) -> float& {
    return reinterpret_cast<float*>(
        matrix.data)[batch * matrix.batch_step + row * matrix.pitch + col];
  };
  for (std::int64_t b = 0; b < matmul.batch; ++b) {
    for (std::int64_t i = 0; i < matmul.m; ++i) {
      for (std::int64_t j = 0; j < matmul.n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < matmul.k; ++l) {
          sum += double{matmul.transpose_a ? at(matmul.a, b, l, i) : at(matmul.a, b, i, l)} *
                 double{matmul.transpose_b ? at(matmul.b, b, j, l) : at(matmul.b, b, l, j)};
        }
        sum *= matmul.alpha;
        if (matmul.c.data != nullptr) sum += at(matmul.c, b, i, j);
        at(matmul.d, b, i, j) = static_cast<float>(sum);
      }
    }
  }
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// Tensors with random values, on the host and in memory of the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "harness/cuda/cuda_resources.h"
#include "harness/cuda/device_storage.h"
#include "harness/cuda/host_values.h"
#include "tests/suite/rounded_to.h"

namespace commfuse::fake {

class DeviceTensors {
 public:
  /// Values uniform in [-1, 1), as the dtype has them.
  TensorId add_random(std::int32_t rows, std::int32_t cols, DType dtype) {
    const auto id = static_cast<TensorId>(tensors_.size());
    tensors_.push_back({"t" + std::to_string(id), rows, cols, dtype});
    std::vector<float>& values = values_.emplace_back();
    std::uniform_real_distribution<float> any(-1.0F, 1.0F);
    for (std::int64_t i = 0; i < tensors_.back().elements(); ++i) {
      values.push_back(static_cast<float>(rounded_to(dtype, any(generator_))));
    }
    return id;
  }

  /// Puts the host's values of all tensors into new memory of the device.
  void upload(cudaStream_t stream) {
    std::size_t bytes = 0;
    std::vector<std::size_t> offsets;
    for (const Tensor& tensor : tensors_) {
      offsets.push_back(bytes);
      bytes += (static_cast<std::size_t>(tensor.bytes()) + 255) / 256 * 256;
    }
    memory_ = DeviceMemory(bytes);
    std::vector<std::byte*> blocks;
    for (const std::size_t offset : offsets) blocks.push_back(memory_.data() + offset);
    storage_ = DeviceStorage(tensors_, blocks);
    for (TensorId id = 0; id < tensors_.size(); ++id) {
      write_values(storage_, all(id), values_[id], stream);
    }
  }
  /// Takes the device's values to the host.
  void download(cudaStream_t stream) {
    for (TensorId id = 0; id < storage_.size(); ++id) {
      read_values(storage_, all(id), values_[id], stream);
    }
  }

  /// Of the last upload.
  [[nodiscard]] const DeviceStorage& storage() const { return storage_; }
  [[nodiscard]] const Tensor& tensor(TensorId id) const { return tensors_[id]; }
  [[nodiscard]] View all(TensorId id) const { return whole(id, tensors_[id]); }
  [[nodiscard]] const std::vector<float>& values(TensorId id) const { return values_[id]; }
  /// Index among the tensor's values of an element of the packed form.
  [[nodiscard]] std::size_t index(const View& view, std::int64_t row, std::int64_t col) const {
    const std::int64_t strip = row / view.rows;
    const std::int64_t in_tensor = view.row + strip * view.row_step + row % view.rows;
    return static_cast<std::size_t>(in_tensor * tensors_[view.tensor].cols + view.col +
                                    strip * view.col_step + col);
  }
  [[nodiscard]] double at(const View& view, std::int64_t row, std::int64_t col) const {
    return values_[view.tensor].at(index(view, row, col));
  }

 private:
  std::vector<Tensor> tensors_;
  std::vector<std::vector<float>> values_;
  std::mt19937 generator_{11};
  DeviceMemory memory_;
  DeviceStorage storage_;
};

}  // namespace commfuse::fake

// SPDX-License-Identifier: Apache-2.0
// Where a rank's tensors lie in device memory.
#pragma once

#include <cstddef>
#include <vector>

#include "suite/tensor.h"

namespace commfuse {

/// Address of every tensor of a plan: the workload's tensors, then its scratch. Row-major,
/// contiguous, 256-byte aligned. Does not own the blocks; null for tensors that are not here.
class DeviceStorage {
 public:
  DeviceStorage() = default;
  /// Throws std::invalid_argument unless there is one block per tensor.
  DeviceStorage(std::vector<Tensor> tensors, std::vector<std::byte*> blocks);

  [[nodiscard]] const Tensor& tensor(TensorId id) const { return tensors_[id]; }
  [[nodiscard]] std::size_t size() const { return tensors_.size(); }
  [[nodiscard]] std::byte* data(TensorId id) const { return blocks_[id]; }
  /// First element of the view; rows are tensor(id).cols elements apart.
  [[nodiscard]] std::byte* at(const View& view) const;

 private:
  std::vector<Tensor> tensors_;
  std::vector<std::byte*> blocks_;
};

}  // namespace commfuse

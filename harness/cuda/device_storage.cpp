// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/device_storage.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace commfuse {

DeviceStorage::DeviceStorage(std::vector<Tensor> tensors, std::vector<std::byte*> blocks)
    : tensors_(std::move(tensors)), blocks_(std::move(blocks)) {
  if (tensors_.size() != blocks_.size()) {
    throw std::invalid_argument(
        fmt::format("storage of {} tensors got {} blocks", tensors_.size(), blocks_.size()));
  }
}

std::byte* DeviceStorage::at(const View& view) const {
  const Tensor& shape = tensors_[view.tensor];
  const std::int64_t element = std::int64_t{view.row} * shape.cols + view.col;
  return blocks_[view.tensor] + element * bytes_of(shape.dtype);
}

}  // namespace commfuse

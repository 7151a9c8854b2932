// SPDX-License-Identifier: Apache-2.0
// Tensors in one allocation, so that one handle gives a peer all of them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "suite/tensor.h"

namespace commfuse {

constexpr std::size_t kTensorAlignment = 256;

constexpr std::size_t aligned_up(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Where tensors lie in a slab: each 256-byte aligned, one after the other. Equal tensors give
/// equal layouts on every rank.
struct SlabLayout {
  explicit SlabLayout(std::span<const Tensor> tensors) {
    for (const Tensor& tensor : tensors) {
      offsets.push_back(bytes);
      bytes += aligned_up(static_cast<std::size_t>(tensor.bytes()), kTensorAlignment);
    }
  }
  std::vector<std::size_t> offsets;  // by tensor
  std::size_t bytes = 0;             // of the slab
};

}  // namespace commfuse

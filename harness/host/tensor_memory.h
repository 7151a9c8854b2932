// SPDX-License-Identifier: Apache-2.0
// Blocks of memory for a list of tensors: private to this rank, or in a segment that all ranks of
// the group map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "harness/world/world.h"
#include "suite/tensor.h"

namespace commfuse {

/// Owns the blocks; 64-byte aligned, zero where never written.
class TensorMemory {
 public:
  /// Collective over the group if any tensor is shared. `shared(i)` says where tensor i goes; the
  /// list and the answers are the same on every rank, so that all lay their segments out alike.
  TensorMemory(World& group, std::span<const Tensor> tensors,
               const std::function<bool(std::size_t)>& shared);

  /// The block of tensor i on `rank`; nullptr for another rank's private tensor.
  [[nodiscard]] std::byte* block(std::size_t i, std::int32_t rank) const;

 private:
  struct Place {
    bool shared = false;
    std::size_t offset = 0;
  };
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  std::int32_t rank_;
  std::vector<Place> places_;
  std::unique_ptr<std::byte[], Free> private_;
  std::unique_ptr<SharedSegment> segment_;
};

}  // namespace commfuse

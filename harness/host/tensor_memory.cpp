// SPDX-License-Identifier: Apache-2.0
#include "harness/host/tensor_memory.h"

#include <cstring>
#include <new>

namespace commfuse {
namespace {

constexpr std::size_t kAlignment = 64;

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

TensorMemory::TensorMemory(World& group, std::span<const Tensor> tensors,
                           const std::function<bool(std::size_t)>& shared)
    : rank_(group.rank()) {
  std::size_t private_bytes = 0;
  std::size_t shared_bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::size_t& bytes = shared(i) ? shared_bytes : private_bytes;
    places_.push_back({shared(i), bytes});
    bytes += aligned(static_cast<std::size_t>(tensors[i].bytes()));
  }
  if (private_bytes > 0) {
    private_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, private_bytes)));
    if (private_ == nullptr) throw std::bad_alloc();
    std::memset(private_.get(), 0, private_bytes);
  }
  if (shared_bytes > 0) segment_ = group.shared(shared_bytes);
}

std::byte* TensorMemory::block(std::size_t i, std::int32_t rank) const {
  const Place& place = places_[i];
  if (place.shared) return segment_->block(rank).data() + place.offset;
  return rank == rank_ ? private_.get() + place.offset : nullptr;
}

}  // namespace commfuse

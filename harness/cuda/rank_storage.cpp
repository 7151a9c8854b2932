// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/rank_storage.h"

#include <cstdint>
#include <span>
#include <utility>

#include "harness/cuda/slab.h"

namespace commfuse {
namespace {

SlabLayout workload_layout(const Plan& plan) {
  return SlabLayout(std::span(plan.tensors).first(plan.workload_tensors));
}

SlabLayout scratch_layout(const Plan& plan) {
  return SlabLayout(std::span(plan.tensors).subspan(plan.workload_tensors));
}

}  // namespace

std::size_t scratch_bytes(const Plan& plan) { return scratch_layout(plan).bytes; }

std::vector<MemoryRange> slabs_of(const Plan& plan, const DeviceStorage& storage) {
  std::vector<MemoryRange> slabs;
  const auto add = [&](std::size_t first, const SlabLayout& layout) {
    if (layout.bytes > 0)
      slabs.push_back({storage.data(static_cast<TensorId>(first)), layout.bytes});
  };
  add(0, workload_layout(plan));
  add(plan.workload_tensors, scratch_layout(plan));
  return slabs;
}

std::vector<DeviceStorage> storages_of_ranks(const Plan& plan, const PeerMemory& workload,
                                             const PeerMemory& scratch) {
  const SlabLayout shared = workload_layout(plan);
  const SlabLayout own = scratch_layout(plan);
  std::vector<DeviceStorage> storages;
  for (std::int32_t rank = 0; rank < plan.ranks; ++rank) {
    std::vector<std::byte*> blocks;
    const auto place = [&](const SlabLayout& layout, std::byte* base) {
      for (const std::size_t offset : layout.offsets) {
        blocks.push_back(base == nullptr ? nullptr : base + offset);
      }
    };
    place(shared, workload.base(rank));
    place(own, scratch.base(rank));
    storages.emplace_back(plan.tensors, std::move(blocks));
  }
  return storages;
}

}  // namespace commfuse

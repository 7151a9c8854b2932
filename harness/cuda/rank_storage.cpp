// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/rank_storage.h"

#include <cstdint>
#include <span>
#include <utility>

#include "harness/cuda/slab.h"

namespace commfuse {
namespace {

SlabLayout scratch_layout(const Plan& plan) {
  return SlabLayout(std::span(plan.tensors).subspan(plan.workload_tensors));
}

}  // namespace

std::size_t scratch_bytes(const Plan& plan) { return scratch_layout(plan).bytes; }

std::vector<DeviceStorage> storages_of_ranks(const Plan& plan, const PeerMemory& workload,
                                             const PeerMemory& scratch) {
  const SlabLayout shared(std::span(plan.tensors).first(plan.workload_tensors));
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

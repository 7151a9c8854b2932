// SPDX-License-Identifier: Apache-2.0
// Where the tensors of a plan lie on every rank.
#pragma once

#include <cstddef>
#include <vector>

#include "harness/cuda/device_storage.h"
#include "harness/cuda/peer_memory.h"
#include "impls/plan.h"

namespace commfuse {

/// What the tensors of the plan take beside those of the workload.
std::size_t scratch_bytes(const Plan& plan);

/// Bytes of this rank, from the base of an allocation on.
struct MemoryRange {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

/// What holds the tensors of a plan that lie in `storage`: the slab of the workload, then that of
/// the plan where it has tensors of its own.
std::vector<MemoryRange> slabs_of(const Plan& plan, const DeviceStorage& storage);

/// By rank: the tensors of the workload in one slab, those of the plan alone in another. Ranks that
/// cannot be reached have no addresses.
std::vector<DeviceStorage> storages_of_ranks(const Plan& plan, const PeerMemory& workload,
                                             const PeerMemory& scratch);

}  // namespace commfuse

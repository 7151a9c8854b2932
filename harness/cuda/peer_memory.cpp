// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/peer_memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <span>
#include <string>

#include "harness/cuda/slab.h"
#include "harness/executor.h"
#include "harness/world/wire.h"

namespace commfuse {

std::vector<std::vector<std::byte>> all_gather(World& group, std::span<const std::byte> bytes) {
  std::vector<std::vector<std::byte>> all(static_cast<std::size_t>(group.ranks()));
  for (std::int32_t rank = 0; rank < group.ranks(); ++rank) {
    all[static_cast<std::size_t>(rank)] = group.broadcast(bytes, rank);
  }
  return all;
}

namespace {

constexpr std::size_t kSharedGranule = std::size_t{2} << 20;

/// Threads of one process on several devices: each must be allowed to reach the others'.
void enable_peer_access(World& group) {
  int own = 0;
  CFB_CUDA(cudaGetDevice(&own));
  for (const auto& bytes : all_gather(group, std::as_bytes(std::span(&own, 1)))) {
    const int other = values_of<int>(bytes).front();
    if (other == own) continue;
    const cudaError_t state = cudaDeviceEnablePeerAccess(other, 0);
    if (state == cudaErrorPeerAccessAlreadyEnabled) {
      cudaGetLastError();  // left for the next call to find, otherwise
    } else {
      CFB_CUDA(state);
    }
  }
}

}  // namespace

Reach reach_of(World& group) {
  const auto pid = static_cast<double>(getpid());
  return group.max(pid) == -group.max(-pid) ? Reach::pointers : Reach::ipc;
}

void PeerMemory::allocate(World& group, std::size_t bytes, Reach reach) {
  group_ = &group;
  reach_ = reach;
  // Every rank has something to share. Smaller allocations share a block, and with it a handle.
  const std::size_t granule = reach == Reach::ipc ? kSharedGranule : kTensorAlignment;
  const std::size_t allocated = aligned_up(std::max<std::size_t>(bytes, 1), granule);
  if (reach == Reach::none) {
    nccl_ = NcclMemory(allocated);
  } else {
    own_ = DeviceMemory(allocated);
  }
  bases_.assign(static_cast<std::size_t>(group.ranks()), nullptr);
  bases_[static_cast<std::size_t>(group.rank())] = data();
  exceptions_ = std::uncaught_exceptions();
  if (reach == Reach::pointers) {
    enable_peer_access(group);
    const std::byte* mine = own_.data();
    const auto all = all_gather(group, std::as_bytes(std::span(&mine, 1)));
    for (std::size_t r = 0; r < all.size(); ++r) bases_[r] = values_of<std::byte*>(all[r]).front();
  } else if (reach == Reach::ipc) {
    open_handles();
  }
}

void PeerMemory::open_handles() {
  cudaIpcMemHandle_t mine{};
  CFB_CUDA(cudaIpcGetMemHandle(&mine, own_.data()));
  const auto all = all_gather(*group_, std::as_bytes(std::span(&mine, 1)));
  std::string reason;
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (static_cast<std::int32_t>(r) == group_->rank()) continue;  // no process opens its own
    void* base = nullptr;
    const cudaError_t state = cudaIpcOpenMemHandle(
        &base, values_of<cudaIpcMemHandle_t>(all[r]).front(), cudaIpcMemLazyEnablePeerAccess);
    if (state == cudaSuccess) {
      bases_[r] = static_cast<std::byte*>(base);
    } else if (reason.empty()) {
      cudaGetLastError();  // the next launch would find it
      reason = fmt::format("rank {} cannot open the memory of rank {}: {}", group_->rank(), r,
                           cudaGetErrorString(state));
    }
  }
  reason = first_text(*group_, reason);
  if (reason.empty()) return;
  close_handles();
  group_->barrier();
  own_ = DeviceMemory();
  throw Unsupported(reason);
}

void PeerMemory::close_handles() {
  for (std::size_t r = 0; r < bases_.size(); ++r) {
    if (static_cast<std::int32_t>(r) != group_->rank() && bases_[r] != nullptr) {
      cudaIpcCloseMemHandle(bases_[r]);
    }
  }
}

PeerMemory::~PeerMemory() {
  if (own_.data() == nullptr || reach_ == Reach::none) return;
  if (std::uncaught_exceptions() > exceptions_) {
    own_.leave_allocated();
    return;
  }
  try {
    cudaDeviceSynchronize();
    group_->barrier();
    if (reach_ != Reach::ipc) return;
    close_handles();
    group_->barrier();
  } catch (const std::exception&) {  // another rank failed, and ends all of them
    own_.leave_allocated();
  }
}

}  // namespace commfuse

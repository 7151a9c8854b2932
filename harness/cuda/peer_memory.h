// SPDX-License-Identifier: Apache-2.0
// Device memory of this rank that its peers can write to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/cuda/cuda_resources.h"
#include "harness/cuda/nccl_memory.h"
#include "harness/world/world.h"

namespace commfuse {

enum class Reach : std::uint8_t {
  none,      // nobody but this rank, and NCCL for it
  pointers,  // ranks are threads of one process: addresses mean the same to all
  ipc,       // ranks are processes of one node
};

/// How the ranks of a group reach each other's memory. Collective.
Reach reach_of(World& group);

class PeerMemory {
 public:
  PeerMemory() = default;
  /// Collective unless reach is none, once, and `bytes` may differ between ranks. The memory is not
  /// initialised. With reach none it is of NCCL, so that all plans run on memory of one kind,
  /// whether they register it or not.
  /// Throws Unsupported on every rank, and keeps nothing, where a process may not open the memory
  /// of another one: a container forbids it, or the device was not given to it.
  void allocate(World& group, std::size_t bytes, Reach reach);
  /// Collective unless reach is none: waits for the device, and closes what was opened before
  /// anybody frees. While an exception unwinds, when the others cannot be expected to come, memory
  /// that peers have opened is left to the end of the process.
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  [[nodiscard]] std::byte* data() const {
    return reach_ == Reach::none ? nccl_.data() : own_.data();
  }
  /// First byte of a rank's memory, as this rank addresses it; null where reach is none and the
  /// rank is another.
  [[nodiscard]] std::byte* base(std::int32_t rank) const {
    return bases_[static_cast<std::size_t>(rank)];
  }

 private:
  void open_handles();
  void close_handles();

  World* group_ = nullptr;
  Reach reach_ = Reach::none;
  DeviceMemory own_;  // where peers reach it
  NcclMemory nccl_;   // where they do not
  std::vector<std::byte*> bases_;
  int exceptions_ = 0;  // in flight when this was made
};

/// Collective: every rank's bytes on every rank, by rank.
std::vector<std::vector<std::byte>> all_gather(World& group, std::span<const std::byte> bytes);

}  // namespace commfuse

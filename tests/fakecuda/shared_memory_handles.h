// SPDX-License-Identifier: Apache-2.0
// Memory that ranks, as processes, open by IPC handles: who has which allocation open, and that the
// order at the end is "sync, close, barrier, free".
#pragma once

#include <driver_types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "tests/fakecuda/machine.h"

namespace commfuse::fake {

/// What a handle says. `valid`: it came from encode().
struct SharedMemoryName {
  bool valid = false;
  std::int32_t owner = 0;
  void* base = nullptr;
};

[[nodiscard]] cudaIpcMemHandle_t encode(const SharedMemoryName& name);
[[nodiscard]] SharedMemoryName decode(const cudaIpcMemHandle_t& handle);

/// An importer's side of the allocations of others. `base` is the base of an allocation.
class SharedMemoryHandles {
 public:
  void open(std::int32_t rank, const void* base) { ++imports_[{base, rank}].count; }
  /// Throws Finding if the rank has it not open, or has work on it that may not be over.
  void close(Machine& machine, std::int32_t rank, const void* base);
  [[nodiscard]] bool is_open(std::int32_t rank, const void* base) const;
  /// The rank enqueued an operation on memory that it has open.
  void touched(std::int32_t rank, const void* base, StreamId stream, OpId op);
  /// Throws Finding unless the calling owner knows that every importer has closed it.
  void check_closed(const Machine& machine, const void* base) const;

 private:
  struct Import {
    int count = 0;
    std::optional<OpId> closed;       // the last close
    std::map<StreamId, OpId> latest;  // operation of each stream on this memory
  };
  std::map<std::pair<const void*, std::int32_t>, Import> imports_;  // by base and rank
};

}  // namespace commfuse::fake

// SPDX-License-Identifier: Apache-2.0
// Shared memory between the processes of one node that leaves nothing behind, however they end.
// Each rank's block is an unnamed memory file (memfd); peers open it through /proc/<pid>/fd and map
// it; no name exists that a killed run could leave in /dev/shm, and /dev/shm's size is no limit.
#pragma once

#include <cstddef>
#include <memory>

#include "harness/world/world.h"

namespace commfuse {

/// Collective over `world`, whose ranks are processes of one node. This rank's block has `bytes`
/// bytes, possibly none. Pages are taken when first touched, so memory lies near the rank that
/// writes it first; whether enough is left is for the caller to check before, since a page that
/// cannot be had ends the process. Throws std::runtime_error, on all ranks alike and naming the
/// rank and the call, where a block cannot be made or a peer's cannot be mapped.
[[nodiscard]] std::unique_ptr<SharedSegment> share_between_processes(World& world,
                                                                     std::size_t bytes);

}  // namespace commfuse

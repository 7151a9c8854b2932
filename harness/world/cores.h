// SPDX-License-Identifier: Apache-2.0
// Which cores the ranks of a node may run on together.
#pragma once

#include <cstdint>

#include "harness/world/world.h"

namespace commfuse {

/// The ranks of this rank's node, and the cores that they may use.
struct NodeCores {
  std::int32_t ranks = 0;
  std::int32_t cores = 0;  // in the union of the ranks' affinity masks

  /// Whether every rank can compute at the same time as the others.
  [[nodiscard]] bool one_each() const { return ranks <= cores; }
};

/// Collective. The union, because mpirun binds each of two ranks to one core: its own mask tells a
/// rank nothing about the node.
[[nodiscard]] NodeCores node_cores(World& world);

/// Cores in the calling thread's affinity mask.
[[nodiscard]] std::int32_t cores_of_this_thread();

}  // namespace commfuse

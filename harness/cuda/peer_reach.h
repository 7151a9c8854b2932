// SPDX-License-Identifier: Apache-2.0
// Whether the ranks of a group can write to each other's devices.
#pragma once

#include <string>

#include "harness/world/world.h"

namespace commfuse {

/// Collective; asks for the calling threads' current devices. On every rank the first reason why
/// one of them cannot reach another one's memory; empty if all can: "rank 0 does not see the device
/// of rank 1 (0000:1b:00.0)", which rules IPC out, or "device ... cannot reach the memory of ...".
std::string why_out_of_reach(World& group);

}  // namespace commfuse

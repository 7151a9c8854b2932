// SPDX-License-Identifier: Apache-2.0
// Whether the ranks of a group can write to each other's devices.
#pragma once

#include <string>

#include "harness/world/world.h"

namespace commfuse {

/// Collective; asks for the calling threads' current devices. On every rank the first reason why
/// one of them cannot reach another one's memory, "device ... cannot reach the memory of device
/// ..."; empty if all can. Of a device that a process does not see nothing is known before its
/// memory is opened.
std::string why_out_of_reach(World& group);

}  // namespace commfuse

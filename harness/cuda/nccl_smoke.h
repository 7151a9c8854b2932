// SPDX-License-Identifier: Apache-2.0
// NCCL on one device: linking, configuration and kernels, where a second device is not at hand.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "harness/cuda/nccl_communicators.h"
#include "harness/world/world.h"

namespace commfuse {

/// Over the communicator of every lane, a rank sends a block to itself and receives it elsewhere,
/// in one group: between different buffers that is a kernel, in place it would be nothing, and a
/// collective of one rank a copy. `alone` is a world of one rank. What is wrong with what arrived;
/// empty if all of it is right. Throws as NcclCommunicators does, and LibraryError.
std::string exchange_with_itself(World& alone, const NcclSettings& settings);

/// Until the stream is done. Polls, so that an error of the communicators is noticed while a kernel
/// waits for it; throws LibraryError then.
void wait_for(cudaStream_t stream, const NcclCommunicators& communicators);
/// The same rank gathers from and into memory that is registered in this way (not standard). With
/// itself alone that is a copy: what it shows is that NCCL takes such a communicator and memory.
/// Throws Unsupported, with its text, where it does not.
std::string gather_registered(World& alone, const NcclSettings& settings, CollectiveVia via);

/// "element 3 is 0, sent was 4"; empty if both are equal, bit for bit.
std::string first_difference(std::span<const float> sent, std::span<const float> received);

}  // namespace commfuse

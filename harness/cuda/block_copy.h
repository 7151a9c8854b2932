// SPDX-License-Identifier: Apache-2.0
// Copies between views by copy engines: planned once, enqueued in every iteration.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "harness/cuda/launches.h"

namespace commfuse {

/// Rows of bytes, equally far apart on either side.
struct BlockCopy {
  std::byte* target = nullptr;
  const std::byte* source = nullptr;
  std::size_t target_pitch = 0;
  std::size_t source_pitch = 0;
  std::size_t width = 0;
  std::size_t rows = 0;
};

/// The fewest copies that move the packed form of `source` to that of `target`, of equal packed
/// size and dtype; nullopt where neither lies in one run of memory and they are cut differently.
std::optional<std::vector<BlockCopy>> block_copies(const DeviceView& target,
                                                   const DeviceView& source);

void enqueue(const BlockCopy& copy, cudaStream_t stream);

}  // namespace commfuse

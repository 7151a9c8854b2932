// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace commfuse {

/// Median time of the device for a copy between memories that this rank's device reaches, after one
/// that does not count. Waits for the stream.
std::int64_t median_copy_ns(std::byte* to, const std::byte* from, std::size_t bytes,
                            std::int32_t repetitions, cudaStream_t stream);

/// The most that each of `shares` allocations may have: `most`, or its share of a quarter of what
/// is free on this rank's device, in whole MiB; 0 where that is less than one.
std::size_t affordable_bytes(std::size_t most, std::size_t shares);

}  // namespace commfuse

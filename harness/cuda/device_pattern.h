// SPDX-License-Identifier: Apache-2.0
// Known words in device memory, which differ from place to place and from seed to seed: what a copy
// must deliver. Through a few MiB of the host's memory, whatever the size.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace commfuse {

/// `bytes` is a multiple of 4. Done when it returns.
void write_pattern(std::byte* memory, std::size_t bytes, std::uint32_t seed, cudaStream_t stream);

/// "word 3 is 0x0, must be 0x9e3779b1"; empty if all are right. Waits for the stream.
std::string first_wrong_word(const std::byte* memory, std::size_t bytes, std::uint32_t seed,
                             cudaStream_t stream);

}  // namespace commfuse

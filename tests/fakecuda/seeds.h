// SPDX-License-Identifier: Apache-2.0
// Of how many seeds a count is, and how many a conformance test takes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace commfuse::fake {

inline constexpr std::uint64_t kSeeds = 20;

/// kSeeds, or fewer where COMMFUSE_FAKECUDA_SEEDS says so.
inline std::uint64_t conformance_seeds() {
  const char* text = std::getenv("COMMFUSE_FAKECUDA_SEEDS");
  const std::uint64_t wanted = text == nullptr ? kSeeds : std::strtoull(text, nullptr, 10);
  return std::clamp<std::uint64_t>(wanted, 1, kSeeds);
}

}  // namespace commfuse::fake

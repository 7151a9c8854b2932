// SPDX-License-Identifier: Apache-2.0
// The largest cache between a core of this node and its memory.
#pragma once

#include <cstdint>
#include <string_view>

namespace commfuse {

constexpr std::int64_t kUnknownCacheBytes = std::int64_t{32} << 20;

/// Of the first core; kUnknownCacheBytes where the system does not say.
std::int64_t last_level_cache_bytes();

/// "32768K" or "32M" as the system writes sizes; 0 if it is none.
std::int64_t parse_cache_size(std::string_view text);

}  // namespace commfuse

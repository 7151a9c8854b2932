// SPDX-License-Identifier: Apache-2.0
// What this machine cannot carry, as the reason to skip a case; empty where it can. Known before
// anything is allocated.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace commfuse {

/// `needed` by the ranks of this node (or by this rank, where every rank looks after itself) of
/// `available` bytes, of devices where the backend has some; 0 available: not known, so nothing is
/// refused.
std::string too_little_memory(std::int64_t needed, std::int64_t available,
                              std::string_view backend);

/// --cache rotate with so many sets of `set_bytes`.
std::string too_many_sets(std::int32_t sets, std::int64_t cache_bytes, std::int64_t set_bytes);

/// paced ranks wait on the clock for each other: each needs a core of its own.
std::string too_few_cores(std::string_view transport, std::int32_t ranks, std::int32_t usable);

}  // namespace commfuse

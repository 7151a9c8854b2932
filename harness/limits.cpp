// SPDX-License-Identifier: Apache-2.0
#include "harness/limits.h"

#include <fmt/format.h>

#include "harness/memory.h"
#include "harness/rotating_executor.h"

namespace commfuse {
namespace {

constexpr double kMemoryShare = 0.9;  // of what is free; the rest is left to everybody else

}  // namespace

std::string too_little_memory(std::int64_t needed, std::int64_t available,
                              std::string_view backend) {
  const bool fits = static_cast<double>(needed) <= kMemoryShare * static_cast<double>(available);
  if (available == 0 || fits) return "";
  return fmt::format("needs about {} of {}memory for all ranks of a node, {} are available",
                     format_bytes(needed), backend == "host" ? "" : "device ",
                     format_bytes(available));
}

std::string too_many_sets(std::int32_t sets, std::int64_t cache_bytes, std::int64_t set_bytes) {
  if (sets <= kMostSets) return "";
  return fmt::format(
      "--cache rotate needs {} sets of {} to exceed a cache of {}, and at most {} take turns: a "
      "larger shape, or --cache hot",
      sets, format_bytes(set_bytes), format_bytes(cache_bytes), kMostSets);
}

std::string too_few_cores(std::string_view transport, std::int32_t ranks, std::int32_t usable) {
  if (transport != "paced" || ranks <= usable) return "";
  return fmt::format(
      "paced needs a core for every rank ({}), {} usable; run fewer ranks, --replay or "
      "--check-only",
      ranks, usable);
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/world/free_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

namespace commfuse {
namespace {

std::optional<std::int64_t> first_number(const char* path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // absent, or "max"
}

std::optional<std::int64_t> mem_available() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::int64_t kib = 0;
  std::string unit;
  while (file >> key >> kib) {
    std::getline(file, unit);
    if (key == "MemAvailable:") return kib * 1024;
  }
  return std::nullopt;
}

}  // namespace

std::int64_t available_bytes() {
  std::int64_t available = mem_available().value_or(0);
  for (const auto& [limit, used] :
       {std::pair{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
        std::pair{"/sys/fs/cgroup/memory/memory.limit_in_bytes",
                  "/sys/fs/cgroup/memory/memory.usage_in_bytes"}}) {
    const auto most = first_number(limit);
    if (most) available = std::min(available, *most - first_number(used).value_or(0));
  }
  return available;
}

}  // namespace commfuse

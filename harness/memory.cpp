// SPDX-License-Identifier: Apache-2.0
#include "harness/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>

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

std::int64_t estimate_rank_bytes(const Workload& workload) {
  std::int64_t bytes = 0;
  std::int64_t largest = 0;
  for (const Tensor& tensor : workload.tensors) {
    bytes += tensor.bytes();
    if (tensor.dtype == DType::bf16) largest = std::max(largest, tensor.elements() * 4);
  }
  for (const TensorId id : workload.weights) {
    if (workload.tensors[id].dtype == DType::bf16) bytes += workload.tensors[id].elements() * 4;
  }
  return bytes + 3 * largest;
}

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

std::string format_bytes(std::int64_t bytes) {
  constexpr double kMiB = 1024.0 * 1024.0;
  return bytes >= 1024 * kMiB ? fmt::format("{:.1f} GiB", bytes / kMiB / 1024)
                              : fmt::format("{:.1f} MiB", bytes / kMiB);
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/memory.h"

#include <fmt/format.h>

#include <algorithm>

namespace commfuse {
namespace {

constexpr std::int64_t kDeviceWorkspaces = std::int64_t{160} << 20;

/// What kernels of the host expand narrow values into.
std::int64_t expansions(const Workload& workload) {
  std::int64_t bytes = 0;
  std::int64_t largest = 0;
  for (const Tensor& tensor : workload.tensors) {
    if (is_narrow(tensor.dtype)) largest = std::max(largest, tensor.elements() * 4);
  }
  for (const TensorId id : workload.weights) {
    if (is_narrow(workload.tensors[id].dtype)) bytes += workload.tensors[id].elements() * 4;
  }
  return bytes + 3 * largest;
}

}  // namespace

std::int64_t estimate_rank_bytes(const Workload& workload, std::string_view backend) {
  return tensor_bytes(workload) + (backend == "host" ? expansions(workload) : kDeviceWorkspaces);
}

std::int64_t tensor_bytes(const Workload& workload) {
  std::int64_t bytes = 0;
  for (const Tensor& tensor : workload.tensors) bytes += tensor.bytes();
  return bytes;
}

std::string format_bytes(std::int64_t bytes) {
  constexpr double kMiB = 1024.0 * 1024.0;
  return bytes >= 1024 * kMiB ? fmt::format("{:.1f} GiB", bytes / kMiB / 1024)
                              : fmt::format("{:.1f} MiB", bytes / kMiB);
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/host/host_backend.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "harness/host/blas.h"
#include "harness/host/host_executor.h"
#include "harness/host/kernels.h"
#include "harness/host/paced_transport.h"
#include "harness/world/cache_size.h"
#include "harness/world/free_memory.h"

namespace commfuse {

HostBackend::HostBackend(Transports others) : transports_(std::move(others)) {
  transports_.emplace("paced",
                      [](World& group) { return std::make_unique<PacedTransport>(group); });
}

std::unique_ptr<Executor> HostBackend::executor(World& group, const Workload& workload,
                                                std::string_view transport) {
  const auto found = transports_.find(transport);
  if (found == transports_.end()) {
    throw std::invalid_argument(fmt::format("no transport '{}' in this launch", transport));
  }
  return std::make_unique<HostExecutor>(group, workload.tensors, workload.weights,
                                        found->second(group));
}

std::int64_t HostBackend::cache_bytes() const { return last_level_cache_bytes(); }

std::int64_t HostBackend::available_bytes() const { return commfuse::available_bytes(); }

std::map<std::string, std::string> HostBackend::libraries() const {
  return {{"blas", describe_blas()}};
}

double HostBackend::measured_peak() { return measure_gemm_peak(); }

}  // namespace commfuse

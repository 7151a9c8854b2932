// SPDX-License-Identifier: Apache-2.0
#include "harness/host/host_backend.h"

#include <utility>

#include "harness/host/blas.h"
#include "harness/host/host_executor.h"
#include "harness/host/kernels.h"
#include "harness/host/paced_transport.h"

namespace commfuse {

HostBackend::HostBackend(std::map<std::string, TransportFactory, std::less<>> others)
    : transports_(std::move(others)) {
  transports_.emplace("paced",
                      [](World& group) { return std::make_unique<PacedTransport>(group); });
}

std::unique_ptr<Executor> HostBackend::executor(World& group, const Workload& workload,
                                                std::string_view transport) {
  return std::make_unique<HostExecutor>(group, workload.tensors, workload.weights,
                                        transports_.find(transport)->second(group));
}

std::map<std::string, std::string> HostBackend::libraries() const {
  return {{"blas", describe_blas()}};
}

double HostBackend::measured_peak() { return measure_gemm_peak(); }

}  // namespace commfuse

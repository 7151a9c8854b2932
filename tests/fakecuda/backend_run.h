// SPDX-License-Identifier: Apache-2.0
// The unchanged CUDA backend on the fakes of its libraries.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "harness/cuda/cuda_executor.h"
#include "harness/world/world.h"
#include "suite/workload.h"
#include "tests/fakecuda/fake_device.h"
#include "tests/fakecuda/verdict.h"

namespace commfuse::fake {

/// How the ranks of a run are placed and talk to each other.
enum class Setting : std::uint8_t {
  nccl,         // processes, a device each
  ce_ipc,       // the same, over copy engines
  ce_one_card,  // threads that share one device
};
std::string name_of(Setting setting);

struct BackendRun {
  Setting setting = Setting::ce_ipc;
  std::int32_t ranks = 2;
  std::uint64_t seed = 0;
};

/// Runs `body` on every rank; what it throws ends the run as host_error.
Verdict run_backend(const BackendRun& run, const std::function<void(World&)>& body);

/// An executor as the backend makes it in this setting. Collective.
std::unique_ptr<CudaExecutor> make_executor(const BackendRun& run, World& world,
                                            const Workload& workload,
                                            const CudaExecutor::Tracing& tracing = {});

}  // namespace commfuse::fake

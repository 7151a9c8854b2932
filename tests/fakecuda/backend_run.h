// SPDX-License-Identifier: Apache-2.0
// The unchanged CUDA backend on the fakes of its libraries.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/cuda/cuda_executor.h"
#include "harness/world/world.h"
#include "suite/workload.h"
#include "tests/fakecuda/fake_device.h"
#include "tests/fakecuda/machine.h"
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
  Issue issue = Issue::calls;
};

/// Runs `body` on every rank; what it throws ends the run as host_error. `look`, if any, is shown
/// the machine afterwards.
Verdict run_backend(const BackendRun& run, const std::function<void(World&)>& body,
                    const std::function<void(const Machine&)>& look = {});

/// An executor as the backend makes it in this setting. Collective.
std::unique_ptr<CudaExecutor> make_executor(const BackendRun& run, World& world,
                                            const Workload& workload,
                                            const CudaExecutor::Tracing& tracing = {});
/// Executors that share a transport, as the backend makes them for --cache rotate. Collective.
std::vector<std::unique_ptr<Executor>> make_executors(const BackendRun& run, World& world,
                                                      const Workload& workload, std::int32_t count);
/// What an executor of that setting takes. Collective.
Device device_of(const BackendRun& run, const World& world);
std::unique_ptr<CudaTransport> make_transport(const BackendRun& run, World& world,
                                              const Device& device, std::int32_t executors = 1);

}  // namespace commfuse::fake

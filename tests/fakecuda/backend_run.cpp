// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/backend_run.h"

#include <array>

#include "harness/cuda/ce_transport.h"
#include "harness/cuda/nccl_transport.h"
#include "tests/fakecuda/fake_runtime.h"
#include "tests/fakecuda/fake_world.h"

namespace commfuse::fake {
namespace {

constexpr std::int32_t kConnections = 32;
// A small workspace: a run spends most of its time on making its memory poison.
constexpr GemmSettings kGemmSettings{.deterministic = true,
                                     .workspace_bytes = std::size_t{1} << 20};

FakeDevices devices_of(const BackendRun& run) {
  FakeDevices devices;
  const bool shared = run.setting == Setting::ce_one_card;
  devices.count = shared ? 1 : run.ranks;
  devices.one_process = shared;
  devices.memory_bytes = std::size_t{16} << 30;
  return devices;
}

}  // namespace

std::string name_of(Setting setting) {
  static constexpr std::array kNames{"nccl", "ce_ipc", "ce_one_card"};
  return kNames[static_cast<std::size_t>(setting)];
}

/// As select_device finds it. The tests of select_device are its own; here ranks are threads
/// whatever they stand for.
Device device_of(const BackendRun& run, const World& world) {
  const bool shared = run.setting == Setting::ce_one_card;
  Device device;
  device.index = shared ? 0 : world.rank();
  device.sms = 132;
  device.ranks_here = shared ? run.ranks : 1;
  device.ranks_on_node = run.ranks;
  device.connections = kConnections;
  device.flushes_remote_writes = true;
  CFB_CUDA(cudaDeviceGetStreamPriorityRange(&device.compute_priority, &device.transfer_priority));
  return device;
}

std::unique_ptr<CudaTransport> make_transport(const BackendRun& run, World& world,
                                              const Device& device, std::int32_t executors) {
  if (run.setting == Setting::nccl) {
    return std::make_unique<NcclTransport>(world, device, NcclSettings{});
  }
  const Reach reach = run.setting == Setting::ce_ipc ? Reach::ipc : Reach::pointers;
  return std::make_unique<CeTransport>(world, device, reach, executors);
}

Verdict run_backend(const BackendRun& run, const std::function<void(World&)>& body,
                    const std::function<void(const Machine&)>& look) {
  Machine machine({run.seed});
  const FakeRuntime runtime(devices_of(run));
  Verdict verdict = run_fake_ranks(machine, run.ranks, [&](World& world) {
    CFB_CUDA(cudaSetDevice(run.setting == Setting::ce_one_card ? 0 : world.rank()));
    body(world);
  });
  if (look) look(machine);
  return verdict;
}

std::unique_ptr<CudaExecutor> make_executor(const BackendRun& run, World& world,
                                            const Workload& workload,
                                            const CudaExecutor::Tracing& tracing) {
  const Device device = device_of(run, world);
  return std::make_unique<CudaExecutor>(world, device, kGemmSettings, workload.tensors,
                                        workload.weights, make_transport(run, world, device),
                                        tracing, run.issue);
}

std::vector<std::unique_ptr<Executor>> make_executors(const BackendRun& run, World& world,
                                                      const Workload& workload,
                                                      std::int32_t count) {
  const Device device = device_of(run, world);
  const std::shared_ptr<CudaTransport> shared = make_transport(run, world, device, count);
  std::vector<std::unique_ptr<Executor>> all;
  for (std::int32_t i = 0; i < count; ++i) {
    all.push_back(std::make_unique<CudaExecutor>(world, device, kGemmSettings, workload.tensors,
                                                 workload.weights, shared, CudaExecutor::Tracing{},
                                                 run.issue));
  }
  return all;
}

}  // namespace commfuse::fake

// SPDX-License-Identifier: Apache-2.0
// The backend of one rank on its GPU: transports nccl and ce.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/backend.h"
#include "harness/backend_settings.h"
#include "harness/cuda/cuda_transport.h"
#include "harness/cuda/cupti_tracer.h"
#include "harness/cuda/device.h"
#include "harness/cuda/device_rates.h"
#include "harness/cuda/machine_survey.h"

namespace commfuse {

class CudaBackend final : public Backend {
 public:
  /// Collective over the world, which outlives this. Throws as select_device does. `sources`: where
  /// it looks at the machine.
  CudaBackend(World& world, const BackendSettings& settings,
              MachineSources sources = MachineSources::of_this_machine(),
              const RateLimits& limits = {});

  [[nodiscard]] std::string_view name() const override { return "cuda"; }
  /// A case that NCCL or the device's queues cannot carry is Unsupported.
  std::unique_ptr<Executor> executor(World& group, const Workload& workload,
                                     std::string_view transport) override;
  /// They share a transport, with its streams and communicators.
  std::vector<std::unique_ptr<Executor>> executors(World& group, const Workload& workload,
                                                   std::string_view transport,
                                                   std::int32_t count) override;
  /// L2 of the device.
  [[nodiscard]] std::int64_t cache_bytes() const override;
  [[nodiscard]] MessageCompletion completion(std::string_view transport) const override {
    return transport == "nccl" ? MessageCompletion::joint : MessageCompletion::each_message;
  }
  [[nodiscard]] std::int64_t available_bytes() const override;
  [[nodiscard]] std::map<std::string, std::string> libraries() const override;
  /// Of a square bf16 gemm, by device time.
  double measured_peak() override;
  [[nodiscard]] std::string_view peak_name() const override { return "measured bf16 gemm peak"; }
  [[nodiscard]] RankDevice rank_device() const override {
    return {device_.name, device_.ranks_here};
  }
  /// Stream operations on values, NCCL between rank 0 and itself, and its ways of collectives: what
  /// such a part throws becomes its text. Then the rates of devices and links, and what the machine
  /// is like. Parts that the environment forbids are missing.
  std::vector<SelfTestPart> self_test() override;
  std::optional<DeviceReading> read_device() override;
  std::vector<std::string> doubts() override;

 private:
  std::vector<SelfTestPart> parts_of_rank_0();
  /// Collective; on rank 0.
  std::vector<Finding> look_at_machine();
  std::unique_ptr<CudaTransport> transport(World& group, std::string_view name,
                                           std::int32_t executors) const;

  World& world_;
  MachineSources sources_;
  BackendSettings settings_;
  RateLimits limits_;
  CuptiTracer* tracer_;  // null: nothing is traced; lives as long as the process
  Device device_;
  std::optional<DeviceState> state_;  // absent where NVML does not show the device
};

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// Compute ops on device storage: cuBLASLt for gemms and the products of attention, own kernels for
// the rest.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "harness/cuda/device_storage.h"
#include "suite/compute.h"

namespace commfuse {

/// The same for every schedule under comparison, and recorded.
struct GemmSettings {
  /// SMs that gemms leave to communication kernels: SM_COUNT_TARGET is what the device has less
  /// these; 0 asks for nothing.
  std::int32_t spared_sms = 0;
  /// Forbids split-K: repeatable bits, no partial sums through D.
  bool deterministic = false;
  bool tf32 = false;  // fp32 tensors are multiplied in tf32
};

/// How many kernels and copies an op launches; most is kAnyNumber (device_trace.h) where a library
/// decides.
struct LaunchCount {
  std::int32_t fewest = 1;
  std::int32_t most = 1;
};

/// Runs the compute ops of one rank's plans on one stream: workspace belongs to that stream, so two
/// ops of one instance never run at the same time. Nothing allocates or synchronises in run() once
/// the op was prepared.
class CudaKernels {
 public:
  /// On the current device. `stream` outlives this.
  CudaKernels(const GemmSettings& settings, cudaStream_t stream);
  ~CudaKernels();
  CudaKernels(const CudaKernels&) = delete;
  CudaKernels& operator=(const CudaKernels&) = delete;

  /// Chooses and caches algorithms, grows the workspace. Throws Unsupported (harness/executor.h)
  /// where cuBLASLt has no algorithm or a view's alignment cannot be served.
  void prepare(const Compute& op, const DeviceStorage& storage);
  /// Enqueues the op, which must have been prepared.
  void run(const Compute& op, const DeviceStorage& storage);
  [[nodiscard]] LaunchCount launches(const Compute& op, const DeviceStorage& storage) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace commfuse

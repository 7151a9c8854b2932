// SPDX-License-Identifier: Apache-2.0
// Compute ops on device storage: cuBLASLt for gemms and the products of attention, own kernels for
// the rest.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "harness/cuda/device_storage.h"
#include "harness/cuda/gemm_settings.h"
#include "suite/compute.h"

namespace commfuse {

/// How many kernels and copies an op launches; most is kAnyNumber (device_trace.h) where a library
/// decides.
struct LaunchCount {
  std::int32_t fewest = 1;
  std::int32_t most = 1;
};

/// Runs the compute ops of one rank's plans on one stream: workspace belongs to that stream, so two
/// ops of one instance never run at the same time. run() neither allocates device memory nor
/// synchronises, and all kernels of an op are launched in order on the stream.
class CudaKernels {
 public:
  /// On the current device. `stream` outlives this.
  CudaKernels(const GemmSettings& settings, cudaStream_t stream);
  ~CudaKernels();
  CudaKernels(const CudaKernels&) = delete;
  CudaKernels& operator=(const CudaKernels&) = delete;

  /// Chooses and caches algorithms, grows the workspace (which waits for the device). Throws
  /// std::invalid_argument where shapes do not fit together, Unsupported (harness/executor.h) where
  /// dtypes do not or cuBLASLt has no algorithm for these shapes and alignments.
  void prepare(const Compute& op, const DeviceStorage& storage);
  /// Enqueues the op, which must have been prepared, with a storage of the same tensors at
  /// addresses aligned alike. Throws std::logic_error where it was not.
  void run(const Compute& op, const DeviceStorage& storage);
  [[nodiscard]] LaunchCount launches(const Compute& op, const DeviceStorage& storage) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace commfuse

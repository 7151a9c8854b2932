// SPDX-License-Identifier: Apache-2.0
// Compute ops on host storage: OpenBLAS with one thread per rank, and loops the compiler
// vectorises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "harness/host/storage.h"
#include "suite/compute.h"

namespace commfuse {

/// Runs the compute ops of one rank's plans on one thread. fp32 tensors go to BLAS as they are;
/// narrow operands are expanded into workspace (weights once, when they are complete), accumulated
/// in fp32 and rounded once. Several instances may run at the same time, each on its own thread.
class HostKernels {
 public:
  /// Sets OpenBLAS to one thread; throws std::runtime_error where it is not the threaded variant.
  HostKernels();
  ~HostKernels();
  HostKernels(const HostKernels&) = delete;
  HostKernels& operator=(const HostKernels&) = delete;

  /// Grows the workspace so that run() of this op allocates nothing. Throws std::invalid_argument
  /// where the shapes of the op's views do not fit together.
  void prepare(const Compute& op, const Storage& storage);
  /// (Re)expands weights that are narrow. Call after their values changed, and once before
  /// prepare(), which otherwise sets workspace aside for them as for any other operand.
  void expand_weights(std::span<const TensorId> weights, const Storage& storage);
  void run(const Compute& op, const Storage& storage);

 private:
  struct Workspace;
  std::unique_ptr<Workspace> workspace_;
};

/// target[i] = the sum over `terms` of element i, in their order, in fp32 and rounded once: what a
/// reduce-scatter over shared memory does. `target` may be one of the terms; there is at least one.
void reduce_blocks(DType dtype, std::byte* target, std::span<const std::byte* const> terms,
                   std::int64_t elements);

/// Best rate of a square fp32 gemm on this thread now, in FLOP/s of thread CPU time: the measured
/// gemm peak. Takes about 0.3 s.
double measure_gemm_peak();

}  // namespace commfuse

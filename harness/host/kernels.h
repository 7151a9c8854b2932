// SPDX-License-Identifier: Apache-2.0
// Compute ops on host storage: OpenBLAS with one thread per rank, and loops the compiler
// vectorises.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "harness/host/storage.h"
#include "suite/compute.h"

namespace commfuse {

/// Runs the compute ops of one rank's plans on one thread. fp32 tensors go to BLAS as they are;
/// bf16 operands are expanded into workspace (weights once, when they are complete), accumulated in
/// fp32 and rounded once.
class HostKernels {
 public:
  /// Asserts that OpenBLAS is the threaded variant set to one thread; throws std::runtime_error
  /// otherwise.
  HostKernels();
  ~HostKernels();
  HostKernels(const HostKernels&) = delete;
  HostKernels& operator=(const HostKernels&) = delete;

  /// Grows the workspace so that run() of this op allocates nothing.
  void prepare(const Compute& op, const Storage& storage);
  /// (Re)expands weights that are bf16. Call after their values changed.
  void expand_weights(std::span<const TensorId> weights, const Storage& storage);
  void run(const Compute& op, const Storage& storage);

 private:
  struct Workspace;
  std::unique_ptr<Workspace> workspace_;
};

/// Sums `terms` (equal strips, or equal blocks of several ranks) in fp32: what a reduce-scatter
/// over shared memory does.
void reduce_blocks(const Tensor& dtype_of, std::byte* target,
                   std::span<const std::byte* const> terms, std::int64_t elements);

/// Best rate of a square fp32 gemm on this thread now, in FLOP/s: the measured peak of SCHEDULES
/// section 3.
double measure_gemm_peak();

}  // namespace commfuse

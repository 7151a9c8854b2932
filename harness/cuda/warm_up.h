// SPDX-License-Identifier: Apache-2.0
// Kernels are loaded at their first launch, which may wait for all work of the device: for ever, if
// a stream is waiting for a peer by then. So every op runs once before anything waits.
#pragma once

#include <span>

#include "harness/cuda/cuda_kernels.h"
#include "harness/program.h"

namespace commfuse {

/// Runs the compute ops of a program once on blocks of zeros, so that nothing a workload has
/// written is touched; returns when they are done.
void warm_up(const Program& program, CudaKernels& kernels, cudaStream_t stream);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "harness/cuda/cuda_kernels.h"

namespace commfuse {

/// The best rate of a square bf16 gemm on the current device now, in FLOP/s of device time: the
/// peak that utilisation is a share of (docs/metrics.md).
double measure_cuda_gemm_peak(const GemmSettings& settings);

}  // namespace commfuse

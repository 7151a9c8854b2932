// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "harness/cuda/cuda_kernels.h"

namespace commfuse {

constexpr std::int32_t kPeakSize = 8192;
constexpr int kPeakTries = 10;

/// The best rate of a square bf16 gemm on the current device now, in FLOP/s of device time
/// (docs/metrics.md).
double measure_cuda_gemm_peak(const GemmSettings& settings, std::int32_t size = kPeakSize);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// Sizes of rates for tests that are not about them.
#pragma once

#include "harness/cuda/device_rates.h"

namespace commfuse::fake {

/// What the fakes can carry in no time.
inline RateLimits small_limits() {
  RateLimits limits;
  limits.gemm_size = 32;
  limits.copy_bytes = limits.link_bytes = 1 << 16;
  limits.collective_bytes = 1 << 12;
  limits.repetitions = limits.collective_repetitions = 3;
  return limits;
}

}  // namespace commfuse::fake

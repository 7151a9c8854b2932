// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace commfuse {

/// The same for every schedule under comparison, and recorded.
struct GemmSettings {
  /// SMs that gemms leave to communication kernels: SM_COUNT_TARGET is what the device has less
  /// these; 0 asks for nothing.
  std::int32_t spared_sms = 0;
  /// Forbids split-K: repeatable bits, no partial sums through D.
  bool deterministic = false;
  bool tf32 = false;                                    // fp32 tensors are multiplied in tf32
  std::size_t workspace_bytes = std::size_t{32} << 20;  // what an algorithm may use
};

}  // namespace commfuse

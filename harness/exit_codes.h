// SPDX-License-Identifier: Apache-2.0
// Exit codes of INTEROP section 8 that a session ends with; library errors, timeouts and interrupts
// have theirs where they arise.
#pragma once

namespace commfuse {

constexpr int kExitOk = 0;
constexpr int kExitInternal = 1;
constexpr int kExitDoubtful = 2;  // --strict-env; as errors of CUDA
constexpr int kExitAllSkipped = 5;
constexpr int kExitUsage = 6;
constexpr int kExitWrong = 7;

}  // namespace commfuse

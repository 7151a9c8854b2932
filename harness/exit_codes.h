// SPDX-License-Identifier: Apache-2.0
// Exit codes that a session ends with; those of library errors, timeouts and interrupts are defined
// where they arise. `commfuse-bench --help` lists all.
#pragma once

namespace commfuse {

constexpr int kExitOk = 0;
constexpr int kExitInternal = 1;
constexpr int kExitDoubtful = 2;  // --strict-env; as errors of CUDA
constexpr int kExitAllSkipped = 5;
constexpr int kExitUsage = 6;
constexpr int kExitWrong = 7;

}  // namespace commfuse

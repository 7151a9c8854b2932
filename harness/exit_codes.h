// SPDX-License-Identifier: Apache-2.0
// Exit codes that a session ends with; those of library errors, timeouts and interrupts are defined
// where they arise. `commfuse-bench --help` lists all.
#pragma once

#include <algorithm>
#include <span>

#include "harness/record/record.h"

namespace commfuse {

constexpr int kExitOk = 0;
constexpr int kExitInternal = 1;
constexpr int kExitDoubtful = 2;  // --strict-env; as errors of CUDA
constexpr int kExitAllSkipped = 5;
constexpr int kExitUsage = 6;
constexpr int kExitWrong = 7;

inline int exit_code_of(std::span<const Outcome> outcomes) {
  const auto any = [&](Outcome outcome) { return std::ranges::count(outcomes, outcome) > 0; };
  if (any(Outcome::wrong)) return kExitWrong;
  return any(Outcome::ok) ? kExitOk : kExitAllSkipped;
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// Workloads small enough to compute by hand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "suite/workload.h"

namespace commfuse {

struct SmallCase {
  std::string workload;
  Shape shape;
  std::int32_t ranks = 1;

  [[nodiscard]] Workload build() const;
};

/// Every workload x activation x mask x grouping that is exact from end to end, on 1 to 4 ranks, in
/// fp32 and bf16.
std::vector<SmallCase> exact_cases();
/// The cases that are compared under a bound.
std::vector<SmallCase> bounded_cases();

std::string name_of(const SmallCase& small);

}  // namespace commfuse

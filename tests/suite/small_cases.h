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

/// The cases of one workload and dtype are tested together.
struct CaseGroup {
  std::string workload;
  DType dtype = DType::f32;
};
std::vector<CaseGroup> case_groups();

/// Every mask and grouping of heads that is exact from end to end, on 1 to 4 ranks.
std::vector<SmallCase> exact_cases(const CaseGroup& group);
/// The same with every activation: the cases that are compared under a bound.
std::vector<SmallCase> bounded_cases(const CaseGroup& group);

std::string name_of(const SmallCase& small);
std::string name_of(const CaseGroup& group);

}  // namespace commfuse

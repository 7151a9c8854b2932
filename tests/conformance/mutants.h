// SPDX-License-Identifier: Apache-2.0
// Damage to plans, one kind at a time, at every place where it can be done.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "impls/plan.h"

namespace commfuse {

struct Mutant {
  std::string damage;  // what was done where
  std::vector<Plan> plans;
};

/// What the damage is done to: sound plans of all ranks.
struct Original {
  const Workload& workload;
  std::span<const Plan> plans;
};

using Visit = std::function<void(const Mutant&)>;

/// "kept": dependencies stay as they were before the damage. "inferred": the damaged ops went
/// through PlanBuilder, as the work of a faulty implementation would.
struct MutationKind {
  std::string_view name;
  void (*each)(const Original&, const Visit&);
  /// When such damage can be without effect; empty where it always has one.
  std::string_view harmless_where;
};
std::span<const MutationKind> mutation_kinds();

}  // namespace commfuse

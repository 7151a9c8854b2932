// SPDX-License-Identifier: Apache-2.0
// How long compute ops take where nobody runs them.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "harness/sim/network.h"
#include "impls/plan.h"
#include "suite/compute.h"

namespace commfuse {

/// Different ops that plans have, in words, and those of them that a model knows no time of.
struct OpCoverage {
  std::set<std::string> asked;
  std::vector<std::string> unknown;  // as they were met
};

class ComputeModel {
 public:
  virtual ~ComputeModel() = default;
  /// Of one op on one rank, alone. Above or equal to 0; the same for equal ops. Several threads ask
  /// at once, and for the same shapes a million times.
  [[nodiscard]] virtual Picoseconds time(const Compute& op,
                                         std::span<const Tensor> tensors) const = 0;
  /// Whether there are ops that it knows no time of, so that plans have to be asked about first.
  [[nodiscard]] virtual bool is_partial() const { return false; }
  /// Adds the ops of a plan; a model that knows all ops adds nothing.
  virtual void cover(const Plan& /*plan*/, OpCoverage& /*coverage*/) const {}
  /// Why ops that were added cannot be timed, in one line; empty if all can.
  [[nodiscard]] virtual std::string refusal(const OpCoverage& /*coverage*/) const { return {}; }
};

/// By op of the plan; 0 for exchanges and collectives.
std::vector<Picoseconds> op_times(const ComputeModel& model, const Plan& plan);

}  // namespace commfuse

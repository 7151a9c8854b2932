// SPDX-License-Identifier: Apache-2.0
// How long compute ops take where nobody runs them.
#pragma once

#include <span>
#include <vector>

#include "harness/sim/network.h"
#include "impls/plan.h"
#include "suite/compute.h"

namespace commfuse {

class ComputeModel {
 public:
  virtual ~ComputeModel() = default;
  /// Of one op on one rank, alone. Above or equal to 0; the same for equal ops. Several threads ask
  /// at once, and for the same shapes a million times.
  [[nodiscard]] virtual Picoseconds time(const Compute& op,
                                         std::span<const Tensor> tensors) const = 0;
};

/// By op of the plan; 0 for exchanges and collectives.
std::vector<Picoseconds> op_times(const ComputeModel& model, const Plan& plan);

}  // namespace commfuse

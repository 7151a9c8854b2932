// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/compute_model.h"

namespace commfuse {

std::vector<Picoseconds> op_times(const ComputeModel& model, const Plan& plan) {
  std::vector<Picoseconds> times;
  times.reserve(plan.ops.size());
  for (const Op& op : plan.ops) {
    const auto compute = compute_of(op);
    times.push_back(compute ? model.time(*compute, plan.tensors) : 0);
  }
  return times;
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// Static checks of the plans of all ranks, before anything runs.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "impls/message_completion.h"
#include "impls/plan.h"

namespace commfuse {

/// The message names op, rank and view. A plan that fails is a fault of ours: exit code 1.
class PlanError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Traffic and memory of one rank, found on the way.
struct PlanFacts {
  /// By exchanges, and at the least by collectives: (P-1)/P of the array, twice that in an
  /// all-reduce.
  std::int64_t bytes_sent = 0;
  std::int64_t minimum_bytes = 0;  // what the stages' collectives must send at least; 0 without
                                   // communication
  std::int64_t scratch_bytes = 0;
};

/// Throws PlanError unless: tensors begin with the workload's, and outputs are those that it
/// requires of the plan's portion; views of a compute op fit together; every send meets one receive
/// of equal logical size, in order; ranks agree on their collectives; nothing deadlocks under
/// rendezvous semantics (an exchange starts when its dependencies are done and its lane's turn has
/// come; messages complete as `completion` says); every conflict between two ops is
/// ordered by dependencies or a lane; nothing reads what was never written; every output element is
/// written; bytes sent are at least the minimum.
std::vector<PlanFacts> verify(std::span<const Plan> plans, const Workload& workload,
                              MessageCompletion completion = MessageCompletion::each_message);

/// What of this concerns one plan alone, where plans of all ranks are too many to keep: not whether
/// messages meet, ranks agree and all of them finish. Throws PlanError.
PlanFacts verify_alone(const Plan& plan, const Workload& workload);

}  // namespace commfuse

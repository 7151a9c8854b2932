// SPDX-License-Identifier: Apache-2.0
// The checks that verify() is made of, in the order in which each relies on the ones before. All
// throw PlanError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "impls/message_completion.h"
#include "impls/plan.h"

namespace commfuse {

/// One plan per rank, with the workload's tensors and the outputs that it requires; every id, range
/// and view points to something; views of a compute op fit together; messages of one exchange do
/// not touch what another of them receives; collectives have the views that plan.h asks for.
void check_well_formed(std::span<const Plan> plans, const Workload& workload);
/// The same of one plan, but for who there is.
void check_well_formed(const Plan& plan, const Workload& workload);

struct MessageRef {
  std::int32_t rank = 0;
  MessageId id = 0;
};

/// Who meets whom.
struct Matching {
  std::vector<std::vector<MessageRef>> partners;  // [rank][message]
  std::vector<std::vector<OpId>> owners;          // [rank][message]: the exchange it belongs to
};
/// Every send meets one receive of the same logical size, in order; ranks agree on the collectives
/// of every lane.
Matching match(std::span<const Plan> plans);

/// Everything finishes under rendezvous semantics.
void check_progress(std::span<const Plan> plans, const Matching& matching,
                    MessageCompletion completion);

/// Every conflict between two ops is ordered by dependencies or a lane; nothing reads what was
/// never written; the outputs are written.
void check_ordering(const Plan& plan);

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
// The two halves of a workload, as implementations like the others. Neither computes the answer:
// each has inputs and outputs of its own (suite's required_outputs and initial_data).
//
//   compute_only   compute  [    whole ops, inputs gathered beforehand    ]
//   comm_only      compute  [ collective ][ collective ]   one after the other, nothing computed
//
// On one rank nothing moves, and comm_only copies what would move as a compute op.
#include "impls/implementation.h"
#include "impls/sliced.h"

namespace commfuse {
namespace {

void lower_communication(const Stage& stage, PlanBuilder& plan) {
  if (stage.gather) gather_whole(*stage.gather, stage.axis, plan, Lane::compute);
  if (plan.ranks() > 1) {
    send_whole(stage, plan, Lane::compute);
  } else if (const auto moved = outgoing(stage)) {
    const auto [computed, received] = *moved;
    plan.compute(
        Copy{whole(received, plan.tensor(received)), whole(computed, plan.tensor(computed))});
  }
}

}  // namespace

Implementation make_compute_only(const Parameters& /*none*/, const Workload& /*workload*/) {
  Implementation made;
  made.name = "compute_only";
  made.portion = Portion::compute_only;
  made.lower = [](const Stage& stage, PlanBuilder& plan) {
    const Tile everything = tile_of(stage, plan.rank());
    for (const Phase& phase : stage.phases) plan.compute(phase(everything, {}));
  };
  made.unsupported = [](const Stage&) { return std::string{}; };
  return made;
}

Implementation make_comm_only(const Parameters& /*none*/, const Workload& /*workload*/) {
  Implementation made;
  made.name = "comm_only";
  made.portion = Portion::comm_only;
  made.lower = &lower_communication;
  made.unsupported = [](const Stage&) { return std::string{}; };
  return made;
}

}  // namespace commfuse

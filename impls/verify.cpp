// SPDX-License-Identifier: Apache-2.0
#include "impls/verify.h"

#include <fmt/format.h>

#include "impls/checks.h"

namespace commfuse {
namespace {

std::int64_t bytes_sent(const Plan& plan) {
  std::int64_t bytes = 0;
  for (const Message& message : plan.messages) {
    if (message.send) bytes += message.wire_bytes;
  }
  for (const Op& op : plan.ops) {
    if (const auto* collective = std::get_if<Collective>(&op.work)) {
      bytes += least_bytes_sent(*collective, plan.ranks, plan.tensors);
    }
  }
  return bytes;
}

/// What a rank sends at least, in a ring as well as straight to the others: a slice P-1 times, and
/// twice as often where every rank needs the whole sum.
std::int64_t minimum_bytes(const Plan& plan, const Workload& workload) {
  if (plan.portion == Portion::compute_only || !plan.communicates) return 0;
  std::int64_t bytes = 0;
  for (const Stage& stage : workload.stages) {
    const auto add = [&](TensorId id) {
      const Tensor& tensor = workload.tensors[id];
      const std::int64_t slice =
          std::int64_t{stage.axis.rows} * tensor.cols * bytes_of(tensor.dtype);
      bytes += (plan.ranks - 1) * slice;
    };
    if (stage.gather) add(stage.gather->buffer);
    if (stage.reduce_scatter) add(stage.reduce_scatter->result);
    if (stage.all_to_all) add(stage.all_to_all->send);
    if (stage.all_reduce) {
      const View sum =
          whole(stage.all_reduce->partial, workload.tensors[stage.all_reduce->partial]);
      bytes += least_bytes_sent({CollectiveKind::all_reduce, sum, sum}, plan.ranks, plan.tensors);
    }
  }
  return bytes;
}

PlanFacts facts_of(const Plan& plan, const Workload& workload) {
  const PlanFacts found{bytes_sent(plan), minimum_bytes(plan, workload), plan.scratch_bytes()};
  if (found.bytes_sent < found.minimum_bytes) {
    throw PlanError(fmt::format("rank {} sends {} bytes, where {} are the least", plan.rank,
                                found.bytes_sent, found.minimum_bytes));
  }
  return found;
}

}  // namespace

std::vector<PlanFacts> verify(std::span<const Plan> plans, const Workload& workload,
                              MessageCompletion completion) {
  check_well_formed(plans, workload);
  check_progress(plans, match(plans), completion);
  for (const Plan& plan : plans) check_ordering(plan);
  std::vector<PlanFacts> facts;
  for (const Plan& plan : plans) facts.push_back(facts_of(plan, workload));
  return facts;
}

PlanFacts verify_alone(const Plan& plan, const Workload& workload) {
  check_well_formed(plan, workload);
  check_ordering(plan);
  return facts_of(plan, workload);
}

}  // namespace commfuse

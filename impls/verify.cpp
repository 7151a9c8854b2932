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
    const auto* collective = std::get_if<Collective>(&op.work);
    if (collective == nullptr) continue;
    const bool gathers = collective->kind == CollectiveKind::all_gather;
    const View& part = gathers ? collective->send : collective->receive;
    bytes += (plan.ranks - 1) * part.elements() * bytes_of(plan.tensors[part.tensor].dtype);
  }
  return bytes;
}

/// What a rank sends at least, in a ring as well as straight to the others: a slice P-1 times.
std::int64_t minimum_bytes(const Plan& plan, const Workload& workload) {
  if (plan.portion == Portion::compute_only || !plan.communicates) return 0;
  std::int64_t bytes = 0;
  for (const Stage& stage : workload.stages) {
    const auto add = [&](TensorId id) {
      const Tensor& tensor = workload.tensors[id];
      bytes +=
          (plan.ranks - 1) * std::int64_t{stage.axis.rows} * tensor.cols * bytes_of(tensor.dtype);
    };
    if (stage.gather) add(stage.gather->buffer);
    if (stage.reduce_scatter) add(stage.reduce_scatter->result);
  }
  return bytes;
}

}  // namespace

std::vector<PlanFacts> verify(std::span<const Plan> plans, const Workload& workload,
                              MessageCompletion completion) {
  check_well_formed(plans, workload);
  check_progress(plans, match(plans), completion);
  for (const Plan& plan : plans) check_ordering(plan);
  std::vector<PlanFacts> facts;
  for (const Plan& plan : plans) {
    const PlanFacts found{bytes_sent(plan), minimum_bytes(plan, workload), plan.scratch_bytes()};
    if (found.bytes_sent < found.minimum_bytes) {
      throw PlanError(fmt::format("rank {} sends {} bytes, where {} are the least", plan.rank,
                                  found.bytes_sent, found.minimum_bytes));
    }
    facts.push_back(found);
  }
  return facts;
}

}  // namespace commfuse

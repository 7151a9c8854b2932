// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/unknown_ops.h"

#include <algorithm>

#include "impls/implementation.h"

namespace commfuse {
namespace {

class OpsOfGroup {
 public:
  OpsOfGroup(const CaseGroup& cases, const ComputeModel& model)
      : model_(model),
        ranks_(cases.mesh.group_ranks()),
        workload_(cases.workload->build(cases.shape, ranks_)) {}

  [[nodiscard]] OpCoverage of(const std::string& impl) const {
    const Implementation implementation = make_implementation(impl, workload_);
    OpCoverage coverage;
    for (std::int32_t rank = 0; rank < ranks_; ++rank) {
      model_.cover(build_plan(implementation, workload_, rank), coverage);
    }
    return coverage;
  }

 private:
  const ComputeModel& model_;
  std::int32_t ranks_;
  Workload workload_;
};

void merge(const OpCoverage& more, OpCoverage& all) {
  for (const std::string& op : more.unknown) {
    if (!all.asked.contains(op)) all.unknown.push_back(op);
  }
  all.asked.insert(more.asked.begin(), more.asked.end());
}

bool row_runs(const CaseRow& row) { return row.skip.empty(); }

void skip_rows(CaseGroup& cases, const ComputeModel& model, OpCoverage& all) {
  const OpsOfGroup ops(cases, model);
  for (CaseRow& row : cases.rows) {
    if (!row_runs(row)) continue;
    const OpCoverage coverage = ops.of(row.impl);
    row.skip = model.refusal(coverage);
    merge(coverage, all);
  }
  if (cases.link.auto_ratio <= 0 || cases.mesh.group_ranks() == 1) return;
  const std::string reason = model.refusal(ops.of("compute_only"));
  if (reason.empty()) return;
  for (CaseRow& row : cases.rows) {
    if (row_runs(row)) row.skip = "the link cannot be calibrated: " + reason;
  }
}

}  // namespace

std::string skip_unknown_ops(std::vector<CaseGroup>& groups, const ComputeModel& model) {
  if (!model.is_partial()) return "";
  OpCoverage all;
  for (CaseGroup& cases : groups) {
    if (std::ranges::any_of(cases.rows, row_runs)) skip_rows(cases, model, all);
  }
  return model.refusal(all);
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/listing.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/memory.h"
#include "impls/explain.h"

namespace commfuse {

std::string list_everything() {
  std::string text = "Workloads (--workload)\n";
  for (const WorkloadEntry& entry : workloads())
    text += fmt::format("  {:<16} {}\n", entry.name, entry.description);
  text += "\nImplementations (--impl name:parameter=value:...)\n";
  for (const ImplementationEntry& entry : implementations()) {
    text += fmt::format("  {:<16} {}\n", entry.name, entry.description);
    if (!entry.parameters.empty()) text += fmt::format("  {:<16} {}\n", "", entry.parameters);
  }
  text += "\nModels (--model)\n";
  for (const std::string_view name : preset_names()) {
    const Shape shape = preset(name);
    text +=
        fmt::format("  {:<16} hidden {}, ffn {}, heads {}, kv_heads {}, {}\n", name, shape.hidden,
                    shape.ffn, shape.heads, shape.kv_heads, name_of(shape.activation));
  }
  text +=
      "\nTransports (--transport)\n"
      "  paced            an emulated wire between ranks of one node: real gemms, real waiting, "
      "stated link\n"
      "  mpi              MPI point-to-point and collectives; its overlap is reported, not "
      "claimed\n"
      "\nA case whose sizes do not divide is skipped with its constraint; --dry-run shows which.\n";
  return text;
}

std::string list_json(std::span<const CaseGroup> groups) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const CaseGroup& group : groups) {
    for (const CaseRow& row : group.rows) {
      if (row.wanted) list.push_back({{"name", row.id}});
    }
  }
  return nlohmann::ordered_json{{"benchmarks", std::move(list)}}.dump(2) + "\n";
}

std::string dry_run(std::span<const CaseGroup> groups) {
  std::string text;
  for (const CaseGroup& group : groups) {
    std::int64_t bytes = 0;
    bool any = false;
    std::string lines;
    for (const CaseRow& row : group.rows) {
      if (row.wanted)
        lines += row.skip.empty() ? fmt::format("  {}\n", row.id)
                                  : fmt::format("  {}\n    skipped: {}\n", row.id, row.skip);
      if (!row.skip.empty()) continue;
      const Workload workload = group.workload->build(group.shape, group.mesh.group_ranks());
      if (!any) bytes = estimate_rank_bytes(workload, {});
      any = true;
      bytes += build_plan(make_implementation(row.impl, workload), workload, 0).scratch_bytes();
    }
    text += fmt::format("{}: about {} per rank\n{}", group.title(), format_bytes(bytes), lines);
  }
  return text;
}

std::string explain(std::span<const CaseGroup> groups, bool dot) {
  std::string text;
  for (const CaseGroup& group : groups) {
    for (const CaseRow& row : group.rows) {
      if (!row.wanted || !row.skip.empty()) continue;
      const Workload workload = group.workload->build(group.shape, group.mesh.group_ranks());
      for (const Plan& plan : build_plans(make_implementation(row.impl, workload), workload)) {
        if (!dot) text += fmt::format("# {} rank {} of {}\n", row.id, plan.rank, plan.ranks);
        text += dot ? explain_dot(plan, workload) : explain_text(plan, workload);
        text += "\n";
      }
    }
  }
  return text;
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/limits.h"
#include "harness/memory.h"
#include "harness/rotating_executor.h"
#include "impls/explain.h"

namespace commfuse {

std::string list_selection() {
  std::string text = "Workloads (--workload)\n";
  for (const WorkloadEntry& entry : workloads())
    text += fmt::format("  {:<26} {}\n", selector_of(entry), entry.description);
  text += "\nImplementations (--impl name:parameter=value:...)\n";
  for (const ImplementationEntry& entry : implementations()) {
    text += fmt::format("  {:<26} {}\n", entry.name, entry.description);
    if (!entry.parameters.empty()) text += fmt::format("  {:<26} {}\n", "", entry.parameters);
  }
  text += "\nModels (--model)\n";
  for (const std::string_view name : preset_names()) {
    const Shape shape = preset(name);
    text +=
        fmt::format("  {:<26} hidden {}, ffn {}, heads {}, kv_heads {}, {}\n", name, shape.hidden,
                    shape.ffn, shape.heads, shape.kv_heads, name_of(shape.activation));
  }
  return text;
}

std::string list_everything() {
  std::string text = list_selection();
  text +=
      "\nTransports (--transport)\n"
      "  paced                     an emulated wire between ranks of one node: real gemms, real "
      "waiting, "
      "stated link\n"
      "  mpi                       MPI point-to-point and collectives; its overlap is reported, "
      "not "
      "claimed\n"
      "  nccl                      cuda: collectives, and grouped sends and receives, of NCCL\n"
      "  ce                        cuda: copy engines push, stream operations on counters say "
      "when; one "
      "node\n"
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

namespace {

/// What a group needs of one rank; no bytes if no row runs.
struct Need {
  std::int64_t bytes = 0;  // of all sets
  std::int32_t sets = 1;
  std::string skip;  // why the sets cannot take turns
};

Need need_of(const CaseGroup& group, const Machine& machine) {
  Need need;
  std::int64_t& bytes = need.bytes;
  for (const CaseRow& row : group.rows) {
    if (!row.skip.empty()) continue;
    const Workload workload = group.workload->build(group.shape, group.mesh.group_ranks());
    if (bytes == 0) {
      bytes = estimate_rank_bytes(workload, group.backend);
      const std::int64_t set = tensor_bytes(workload);
      if (group.rotate) need.sets = sets_beyond_cache(machine.cache_bytes, set);
      need.skip = too_many_sets(need.sets, machine.cache_bytes, set);
    }
    bytes += build_plan(make_implementation(row.impl, workload), workload, 0).scratch_bytes();
  }
  bytes *= need.sets;
  return need;
}

std::string need_text(const CaseGroup& group, const Need& need, const Machine& machine) {
  if (need.bytes == 0) return "";
  std::string text = fmt::format(": about {} per rank", format_bytes(need.bytes));
  if (!group.rotate) return text;
  return text + fmt::format(" in {} sets{}", need.sets, machine.cache_bytes == 0 ? " or more" : "");
}

/// Why nothing of a group can run here; empty if it can.
std::string group_skip(const CaseGroup& group, const Need& need, const Machine& machine) {
  if (!need.skip.empty()) return need.skip;
  const std::int64_t bytes = need.bytes;
  const std::int32_t ranks = group.mesh.ranks();
  std::string memory = too_little_memory(machine.one_node ? bytes * ranks : bytes,
                                         machine.available_bytes, group.backend);
  if (!memory.empty() || machine.usable_cores == 0) return memory;
  return too_few_cores(group.transport, ranks, machine.usable_cores);
}

bool is_bound(const CaseRow& row) { return row.impl == "compute_only" || row.impl == "comm_only"; }

}  // namespace

std::string dry_run(std::span<const CaseGroup> groups, const Machine& machine) {
  std::string text;
  for (const CaseGroup& group : groups) {
    const Need need = need_of(group, machine);
    const std::string reason = group_skip(group, need, machine);
    text += fmt::format("{}{}\n", group.title(), need_text(group, need, machine));
    text += rows_text(group, reason);
  }
  return text;
}

std::string rows_text(const CaseGroup& group, const std::string& reason) {
  std::string text;
  for (const CaseRow& row : group.rows) {
    if (!row.wanted) continue;
    text += fmt::format("  {}\n", row.id);
    const std::string& skip = row.skip.empty() ? reason : row.skip;
    if (!skip.empty()) text += fmt::format("    skipped: {}\n", skip);
  }
  return text;
}

std::vector<std::string> skipped_lines(std::span<const CaseGroup> groups) {
  std::vector<std::string> lines;
  for (const CaseGroup& group : groups) {
    for (const CaseRow& row : group.rows) {
      if (!row.skip.empty()) lines.push_back(fmt::format("{} skipped: {}", row.id, row.skip));
    }
  }
  return lines;
}

std::string explain(std::span<const CaseGroup> groups, bool dot) {
  std::string text;
  for (const CaseGroup& group : groups) {
    const bool schedules = std::ranges::any_of(
        group.rows, [](const CaseRow& row) { return row.wanted && !is_bound(row); });
    for (const CaseRow& row : group.rows) {
      if (!row.wanted || !row.skip.empty() || (schedules && is_bound(row))) continue;
      const Workload workload = group.workload->build(group.shape, group.mesh.group_ranks());
      for (const Plan& plan : build_plans(make_implementation(row.impl, workload), workload)) {
        if (!dot) text += fmt::format("# {} rank {} of {}\n", row.id, plan.rank, plan.ranks);
        text += dot ? explain_dot(plan, workload, row.impl) : explain_text(plan, workload);
        text += "\n";
      }
    }
  }
  return text;
}

}  // namespace commfuse

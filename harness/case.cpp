// SPDX-License-Identifier: Apache-2.0
#include "harness/case.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <regex>
#include <set>

#include "harness/program.h"
#include "harness/record/record.h"
#include "harness/sim/event_graph.h"
#include "suite/error.h"

namespace commfuse {
namespace {

constexpr std::size_t kLongestFilter = 2000;  // std::regex recurses over nested groups

/// "fp32", "bf16/grad_dtype:bf16/bucket:26214400": of gradients what matters and is not usual.
std::string dtype_of(const CaseGroup& group) {
  const Shape& shape = group.shape;
  std::string text(name_of(shape.dtype));
  if (makes_gradients(*group.workload) && shape.gradient != DType::f32) {
    text += fmt::format("/grad_dtype:{}", name_of(shape.gradient));
  }
  if (group.workload->reduces_gradients && shape.bucket > 0) {
    text += fmt::format("/bucket:{}", shape.bucket);
  }
  return text;
}

std::string case_id(const CaseGroup& group, std::string_view impl) {
  const Shape& shape = group.shape;
  std::string id = fmt::format(
      "{}/impl:{}/model:{}/hidden:{}/ffn:{}/heads:{}/kv_heads:{}/head_dim:{}/activation:{}/"
      "causal:{}/layers:{}/tokens:{}/dtype:{}"
      "/pass:{}/ranks:{}",
      group.workload->name, impl, shape.model, shape.hidden, shape.ffn, shape.heads, shape.kv_heads,
      shape.head_dim, name_of(shape.activation), shape.causal ? "yes" : "no", shape.layers,
      shape.tokens, dtype_of(group), group.workload->pass, group.mesh.group_ranks());
  if (group.meshed) {
    for (const Mesh::Axis& axis : group.mesh.axes)
      id += fmt::format("/{}:{}", axis.name, axis.ranks);
    id += fmt::format("/on:{}", group.mesh.axes[group.mesh.on].name);
  }
  id += fmt::format("/backend:{}/transport:{}", group.backend, group.transport);
  if (!group.machine.empty()) id += fmt::format("/machine:{}", group.machine);
  if (!group.settings.empty()) id += fmt::format("/settings:{}", group.settings);
  if (!group.link.text.empty()) id += fmt::format("/link:{}", group.link.text);
  id += fmt::format("/mode:{}", group.mode == Mode::isolated ? "isolated" : "steady");
  if (group.rotate) id += "/cache:rotate";
  if (group.replay) id += "/clock:replayed";
  if (id.size() > kLongestId)
    throw UsageError(fmt::format("case name over {} bytes: {}", kLongestId, id));
  return id;
}

/// The bounds, then the schedules; of a workload that cannot be built, the selected ones.
std::vector<std::string> row_specs(const Selection& selection, const CaseSetting& setting,
                                   const std::optional<Workload>& workload) {
  std::vector<std::string> specs{"compute_only", "comm_only"};
  const std::vector<std::string> schedules =
      setting.schedules && workload ? setting.schedules(*workload) : selection.impls;
  specs.insert(specs.end(), schedules.begin(), schedules.end());
  return specs;
}

void add_rows(CaseGroup& group, const Selection& selection, const CaseSetting& setting) {
  const std::int32_t places = setting.places;
  std::string workload_reason = unsupported(*group.workload, group.shape, group.mesh.group_ranks());
  if (places > 0 && group.mesh.ranks() > places) {
    workload_reason =
        fmt::format("needs {} ranks, and {} has {}", group.mesh.ranks(), group.machine, places);
  }
  std::optional<Workload> workload;
  if (workload_reason.empty())
    workload = group.workload->build(group.shape, group.mesh.group_ranks());
  std::set<std::string> seen;
  for (const std::string& spec : row_specs(selection, setting, workload)) {
    CaseRow row{spec, "", workload_reason, true};
    if (workload) {
      const Implementation implementation = make_implementation(spec, *workload);
      row.impl = implementation.name;
      row.skip = unsupported(implementation, *workload);
      if (row.skip.empty() && group.transport != "nccl") row.skip = refusal_of(implementation.via);
    }
    row.id = case_id(group, row.impl);
    if (seen.insert(row.id).second) group.rows.push_back(std::move(row));
  }
}

/// Takes rows out; a bound stays, unwanted, while the group has another row.
void keep_rows(std::vector<CaseGroup>& groups, const std::function<bool(const CaseRow&)>& keep) {
  for (CaseGroup& group : groups) {
    for (CaseRow& row : group.rows) row.wanted = row.wanted && keep(row);
    const bool any = std::ranges::any_of(group.rows, &CaseRow::wanted);
    std::erase_if(group.rows, [&](const CaseRow& row) {
      const bool reference =
          row.impl == "compute_only" || row.impl == "comm_only" || row.impl == "plain";
      return !row.wanted && !(any && reference);
    });
  }
  std::erase_if(groups, [](const CaseGroup& group) { return group.rows.empty(); });
}

/// Every shape with every dtype, number of tokens and so on.
std::vector<Shape> shapes_of(const Selection& selection) {
  std::vector<Shape> shapes;
  for (Shape shape : selection.shapes) {
    for (const DType dtype : selection.dtypes) {
      shape.dtype = dtype;
      for (const DType gradient : selection.gradient_dtypes) {
        shape.gradient = gradient;
        for (const std::int32_t bucket : selection.buckets) {
          shape.bucket = bucket;
          for (const std::int32_t tokens : selection.tokens) {
            shape.tokens = tokens;
            shapes.push_back(shape);
          }
        }
      }
    }
  }
  return shapes;
}

/// The transport that moves the data.
std::string carrier_of(const Options& options, bool one_node) {
  if (!options.transport.empty()) return options.transport;
  // Threads share a device where there are fewer devices, and NCCL takes one rank for each.
  if (options.backend == "cuda") {
    return options.threads > 0 || (options.replay && one_node) ? "ce" : "nccl";
  }
  return one_node ? "paced" : "mpi";
}

}  // namespace

std::string CaseGroup::title() const {
  return fmt::format("{} {} {} tokens {}, {} ranks{}{}", workload->name, shape.model, shape.tokens,
                     name_of(shape.dtype), mesh.group_ranks(),
                     meshed ? " (" + mesh.text() + ")" : "", replay ? ", replayed" : "");
}

std::vector<Mesh> selected_meshes(const Selection& selection, std::int32_t usual_ranks) {
  std::vector<Mesh> meshes = selection.meshes;
  for (const std::int32_t ranks : selection.ranks) meshes.push_back(single_group(ranks));
  if (meshes.empty()) meshes.push_back(single_group(usual_ranks));
  return meshes;
}

std::vector<CaseGroup> expand_cases(const Selection& selection, std::span<const Mesh> meshes,
                                    const CaseSetting& setting) {
  const std::vector<Shape> shapes = shapes_of(selection);
  std::vector<CaseGroup> groups;
  std::set<std::string> seen;  // names tell cases apart, so one asked for twice runs once
  for (const std::string& pattern : selection.workloads) {
    for (const WorkloadEntry* workload : find_workloads(pattern)) {
      for (const Shape& shape : shapes) {
        for (const Mesh& mesh : meshes) {
          for (const LinkRequest& link : setting.links) {
            CaseGroup& group = groups.emplace_back();
            group = {static_cast<std::int32_t>(groups.size()) - 1,
                     workload,
                     shape,
                     mesh,
                     !selection.meshes.empty(),
                     setting.backend,
                     setting.settings,
                     setting.transport,
                     setting.carrier,
                     setting.machine,
                     link,
                     setting.mode,
                     setting.replay,
                     setting.rotate,
                     false,
                     {}};
            add_rows(group, selection, setting);
            if (!seen.insert(group.rows.front().id).second) groups.pop_back();
          }
        }
      }
    }
  }
  return groups;
}

std::vector<CaseGroup> expand_cases(const Options& options, std::int32_t world_ranks,
                                    bool one_node) {
  const std::vector<Mesh> meshes = selected_meshes(options, world_ranks);
  for (const Mesh& mesh : meshes) {
    if (mesh.ranks() > world_ranks) {
      throw UsageError(fmt::format("{} needs {} ranks, started with {}",
                                   options.meshes.empty() ? "--ranks" : "--mesh", mesh.ranks(),
                                   world_ranks));
    }
  }
  CaseSetting setting;
  setting.backend = options.backend;
  setting.settings = options.backend == "host" ? "" : options.settings.text();
  setting.carrier = carrier_of(options, one_node);
  setting.transport = options.replay ? name_of(Protocol::put) : setting.carrier;
  setting.mode = options.mode;
  setting.replay = options.replay;
  setting.rotate = options.rotate_cache;
  const bool stated_link = options.replay || setting.carrier == "paced";
  if (!stated_link && !options.links.empty()) {
    throw UsageError(
        "--link belongs to --replay and to the emulated wire of --transport paced, which needs all "
        "ranks on one node; mpi uses the real one");
  }
  if (stated_link) setting.links = {parse_link("auto:0.4")};
  if (!options.links.empty()) setting.links = options.links;
  return expand_cases(options, meshes, setting);
}

void filter_cases(std::vector<CaseGroup>& groups, const std::string& filter) {
  if (filter.size() > kLongestFilter) {
    throw UsageError(fmt::format("--benchmark_filter has over {} characters", kLongestFilter));
  }
  const bool negate = filter.starts_with('-');
  std::regex regex;
  try {
    regex.assign(negate ? filter.substr(1) : filter);
  } catch (const std::regex_error& error) {
    throw UsageError(
        fmt::format("--benchmark_filter '{}' is no regular expression: {}", filter, error.what()));
  }
  keep_rows(groups, [&](const CaseRow& row) { return std::regex_search(row.id, regex) != negate; });
  if (groups.empty())
    throw UsageError(
        fmt::format("--benchmark_filter '{}' matches none of the cases; see --dry-run", filter));
}

std::vector<std::string> wanted_ids(const std::vector<CaseGroup>& groups) {
  std::vector<std::string> ids;
  for (const CaseGroup& group : groups) {
    for (const CaseRow& row : group.rows) {
      if (row.wanted) ids.push_back(row.id);
    }
  }
  return ids;
}

void keep_cases(std::vector<CaseGroup>& groups, const std::vector<std::string>& ids) {
  const std::set<std::string> kept(ids.begin(), ids.end());
  keep_rows(groups, [&](const CaseRow& row) { return kept.contains(row.id); });
}

void drop_finished(std::vector<CaseGroup>& groups, const std::vector<std::string>& finished) {
  const std::set<std::string> done(finished.begin(), finished.end());
  for (CaseGroup& group : groups) {
    group.resumed = std::ranges::any_of(
        group.rows, [&](const CaseRow& row) { return row.wanted && done.contains(row.id); });
  }
  keep_rows(groups, [&](const CaseRow& row) { return !done.contains(row.id); });
}

}  // namespace commfuse

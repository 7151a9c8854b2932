// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/simulated_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "harness/case_record.h"
#include "harness/layer_counts.h"
#include "harness/memory.h"
#include "harness/provenance.h"
#include "harness/record/case_metrics.h"
#include "harness/sim/simulated_run.h"
#include "harness/workload_collectives.h"

namespace commfuse {
namespace {

constexpr double kShareOfMemory = 0.9;  // of what is free

nlohmann::ordered_json link_json(const LinkSpeed& link) {
  return {{"bytes_per_second", link.bytes_per_second}, {"latency_s", link.latency_seconds}};
}

nlohmann::ordered_json machine_json(const MachineModel& machine, const Network& network,
                                    double peak_flops_per_second) {
  nlohmann::ordered_json json{
      {"name", machine.name},
      {"peak_tflops", peak_flops_per_second / 1e12},
      {"peak_name", machine.peak_name},
      {"link", link_json(network.inner)},
  };
  if (network.ranks_per_node > 0) {
    json["ranks_per_node"] = network.ranks_per_node;
    json["nics_per_node"] = network.nics_per_node;
    json["nic"] = link_json(network.outer);
  }
  json["collectives"] = name_of(network.algorithm);
  std::vector<std::string> sources = machine.sources;
  const bool fitted = std::ranges::any_of(network.step_latency_seconds,
                                          [](const auto& latency) { return latency.has_value(); });
  if (fitted)
    sources.insert(sources.end(), machine.step_sources.begin(), machine.step_sources.end());
  json["sources"] = sources;
  return json;
}

RunSamples samples_of(RankSummaries ranks) { return {{{std::move(ranks)}}}; }

/// A row on its way to a record.
struct SimulatedEntry {
  const CaseRow* row = nullptr;
  std::string skip;
  Portion portion = Portion::schedule;
  PlanFacts facts;
  RunSamples run, quiet;
  std::uint64_t events = 0;
  double wall_s = 0;

  [[nodiscard]] bool runs() const { return skip.empty(); }
};

class SimulatedGroup {
 public:
  SimulatedGroup(const CaseGroup& cases, const SimulatedMachine& machine)
      : cases_(cases), machine_(machine), model_(machine.model), started_(now_iso8601()) {
    for (const CaseRow& row : cases.rows) {
      entries_.emplace_back().row = &row;
      entries_.back().skip = row.skip;
    }
    model_.network = network_of(machine.model, cases.link);
  }

  std::vector<Record> run() {
    if (std::ranges::any_of(entries_, &SimulatedEntry::runs)) {
      workload_ = cases_.workload->build(cases_.shape, cases_.mesh.group_ranks());
      calibrate();
      for (SimulatedEntry& entry : entries_) {
        if (entry.runs()) simulate_entry(entry);
      }
    }
    std::vector<Record> records;
    for (const SimulatedEntry& entry : entries_) {
      if (entry.row->wanted) records.push_back(record(entry));
    }
    return records;
  }

 private:
  [[nodiscard]] SimulatedSetting setting() const {
    return {workload_, cases_.mesh, model_, machine_.protocol, machine_.threads};
  }

  /// The bandwidth at which all collectives, one after the other, take R times compute_only.
  void calibrate() {
    if (cases_.link.auto_ratio <= 0 || cases_.mesh.group_ranks() == 1) return;
    const SimulatedRun compute =
        simulate(setting(), make_implementation("compute_only", workload_));
    const Plan communication =
        build_plan(make_implementation("comm_only", workload_), workload_, 0);
    const auto bytes = static_cast<double>(verify_alone(communication, workload_).bytes_sent);
    const double seconds =
        cases_.link.auto_ratio * static_cast<double>(compute.longest_window()) * 1e-9;
    if (seconds > 0) model_.network.inner.bytes_per_second = bytes / seconds;
  }

  void simulate_entry(SimulatedEntry& entry) {
    const Implementation implementation = make_implementation(entry.row->impl, workload_);
    entry.portion = implementation.portion;
    entry.skip = too_large_to_simulate(
        simulation_bytes(build_plan(implementation, workload_, 0), cases_.mesh.ranks()),
        machine_.available_bytes);
    if (!entry.runs()) return;
    try {
      SimulatedRun result = simulate(setting(), implementation);
      entry.facts = result.facts;
      entry.run = samples_of(std::move(result.run));
      if (entry.portion == Portion::schedule) entry.quiet = samples_of(std::move(result.quiet));
      entry.events = result.events;
      entry.wall_s = result.wall_s;
    } catch (const std::length_error& error) {
      entry.skip = error.what();
    }
  }

  // ---- records

  [[nodiscard]] const RunSamples* find(std::string_view impl) const {
    for (const SimulatedEntry& entry : entries_) {
      if (entry.runs() && entry.row->impl == impl) return &entry.run;
    }
    return nullptr;
  }

  [[nodiscard]] Record record(const SimulatedEntry& entry) const {
    Record record = record_of(cases_, *entry.row);
    record.clock = Clock::modelled;
    record.outcome = entry.runs() ? Outcome::ok : Outcome::skipped;
    record.reason = entry.skip;
    record.environment = build_facts();
    record.time = started_;
    record.details["machine"] = machine_json(machine_.model, model_.network, peak());
    if (!entry.runs()) return record;
    record.details["simulation"] = {
        {"events", entry.events},
        {"wall_s", entry.wall_s},
        {"events_per_s", static_cast<double>(entry.events) / std::max(entry.wall_s, 1e-9)}};
    add_metrics(record, case_samples(entry));
    return record;
  }

  [[nodiscard]] CaseSamples case_samples(const SimulatedEntry& entry) const {
    CaseSamples samples;
    samples.kind = entry.portion == Portion::schedule       ? RowKind::schedule
                   : entry.portion == Portion::compute_only ? RowKind::compute_only
                                                            : RowKind::comm_only;
    samples.run = &entry.run;
    if (!entry.quiet.empty()) samples.quiet = &entry.quiet;
    samples.compute_only = find("compute_only");
    samples.comm_only = find("comm_only");
    samples.plain = find("plain");
    samples.flops_per_rank = entry.portion == Portion::comm_only ? 0 : workload_.model_flops;
    samples.layer = layer_counts_of(workload_);
    samples.peak_flops_per_second = peak();
    samples.peak_name = model_.peak_name;
    samples.moved_bytes = entry.facts.bytes_sent;
    samples.link_bytes_per_second = link_rate();
    samples.collectives = collectives_of(workload_);
    return samples;
  }

  [[nodiscard]] double peak() const {
    return model_.peak_flops_per_second[static_cast<std::size_t>(cases_.shape.dtype)];
  }

  /// Of the one link that all messages of a group take; 0 where some leave the node.
  [[nodiscard]] double link_rate() const {
    const std::int32_t last = cases_.mesh.ranks() - 1;
    return model_.network.same_node(0, last) ? model_.network.inner.bytes_per_second : 0;
  }

  const CaseGroup& cases_;
  const SimulatedMachine& machine_;
  MachineModel model_;  // with the network of these cases
  std::string started_;
  Workload workload_;
  std::vector<SimulatedEntry> entries_;
};

}  // namespace

std::string machine_in_ids(std::string_view name) {
  std::string text(name);
  for (std::size_t at = text.find("B/s"); at != std::string::npos; at = text.find("B/s")) {
    text.replace(at, 3, "Bps");
  }
  std::ranges::replace_if(
      text, [](char c) { return c == '/' || c == ' '; }, '-');
  return text;
}

Network network_of(const MachineModel& model, const LinkRequest& link) {
  Network network = model.network;
  if (link.text.empty()) return network;
  network.inner = {link.bytes_per_second, link.latency_seconds};
  network.ranks_per_node = 0;
  network.step_latency_seconds = {};
  return network;
}

std::int64_t needed_bytes(const CaseGroup& cases) {
  std::int64_t bytes = 0;
  std::optional<Workload> workload;
  for (const CaseRow& row : cases.rows) {
    if (!row.skip.empty()) continue;
    if (!workload) workload = cases.workload->build(cases.shape, cases.mesh.group_ranks());
    const Plan plan = build_plan(make_implementation(row.impl, *workload), *workload, 0);
    bytes = std::max(bytes, simulation_bytes(plan, cases.mesh.ranks()));
  }
  return bytes;
}

std::string too_large_to_simulate(std::int64_t needed, std::int64_t available) {
  if (available == 0 || static_cast<double>(needed) <= kShareOfMemory * double(available))
    return "";
  return fmt::format("its simulation needs about {} of memory, {} are available",
                     format_bytes(needed), format_bytes(available));
}

std::vector<Record> simulate_group(const CaseGroup& cases, const SimulatedMachine& machine) {
  return SimulatedGroup(cases, machine).run();
}

}  // namespace commfuse

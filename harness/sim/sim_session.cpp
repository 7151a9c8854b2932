// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/sim_session.h"

#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "harness/case.h"
#include "harness/listing.h"
#include "harness/memory.h"
#include "harness/progress.h"
#include "harness/record/table.h"
#include "harness/sim/cost_machine.h"
#include "harness/sim/machine_model.h"
#include "harness/sim/simulated_case.h"
#include "harness/sim/tuning.h"
#include "harness/sim/unknown_ops.h"
#include "harness/world/cores.h"
#include "harness/world/free_memory.h"
#include "harness/world/say.h"
#include "suite/error.h"

namespace commfuse {
namespace {

constexpr std::int32_t kUsualRanks = 8;

MachineModel selected_machine(const SimOptions& options) {
  if (!options.costs.empty()) {
    if (options.machine.empty() && options.links.empty()) {
      throw UsageError(
          "--costs says how long ops take: the network is that of --machine NAME or of --link, for "
          "example --link 400GB/s,3us");
    }
    return machine_with_costs(options.machine, options.costs);
  }
  if (options.machine.empty()) {
    throw UsageError(
        "--machine is missing, for example --machine "
        "ideal:flops=700T,link=400GB/s,latency=3us; --list shows what there is");
  }
  return find_machine(options.machine);
}

std::vector<CaseGroup> selected_cases(const SimOptions& options, const MachineModel& machine) {
  CaseSetting setting;
  setting.backend = "sim";
  setting.transport = name_of(options.protocol);
  setting.machine = machine_in_ids(machine.name);
  setting.places = machine.places;
  if (!options.links.empty()) setting.links = options.links;
  if (options.tune) {
    setting.schedules = [](const Workload& workload) { return tuning_specs(workload); };
  }
  const std::int32_t usual = machine.places > 0 ? machine.places : kUsualRanks;
  const std::vector<Mesh> meshes = selected_meshes(options, usual);
  std::vector<CaseGroup> groups = expand_cases(options, meshes, setting);
  if (!options.filter.empty()) filter_cases(groups, options.filter);
  return groups;
}

std::string list_sim() {
  std::string text =
      list_selection() + "\nMachines (--machine); none of their numbers was measured here\n";
  for (const NamedMachine& machine : named_machines()) {
    text += fmt::format("  {:<25} {}\n", machine.name, machine.description);
  }
  return text +
         "  file.toml                 one of your own, see harness/sim/machines\n"
         "  ideal:flops=700T,link=400GB/s,latency=3us\n"
         "                            every op at that rate, memory for nothing, all ranks on one "
         "node\n"
         "\nProtocols (--protocol)\n"
         "  put                       a message goes once its data and its landing are there\n"
         "  rendezvous                once both of its exchanges have started\n"
         "  joint                     the same, and an exchange is done as a whole\n"
         "\nA case whose sizes do not divide is skipped with its constraint; --dry-run shows "
         "which.\n";
}

std::string dry_run_text(std::span<const CaseGroup> groups, const SimulatedMachine& machine) {
  std::string text;
  for (const CaseGroup& group : groups) {
    const std::int64_t bytes = needed_bytes(group);
    text += fmt::format("{}{}\n", group.title(),
                        bytes > 0 ? ": about " + format_bytes(bytes) : std::string());
    text += rows_text(group, too_large_to_simulate(bytes, machine.available_bytes));
  }
  return text;
}

int print_cases(const SimOptions& options, std::span<const CaseGroup> groups,
                const SimulatedMachine& machine) {
  if (options.action == Action::list_json) {
    fmt::print("{}", list_json(groups));
  } else if (options.action == Action::dry_run) {
    fmt::print("{}", dry_run_text(groups, machine));
  } else {
    for (const std::string& line : skipped_lines(groups)) say(line);
    const std::string plans = explain(groups, options.action == Action::explain_dot);
    fmt::print("{}", plans);
    if (plans.empty()) return kExitAllSkipped;
  }
  return kExitOk;
}

/// An id names machine and costs, but not their numbers: cases of others must not stand for these.
void require_same_numbers(const std::string& path, const MachineModel& machine) {
  for (const Record& record : read_records(path)) {
    const auto found = record.details.find("machine");
    if (found == record.details.end() || found->value("name", "") != machine.name) continue;
    const auto sources = found->value("sources", std::vector<std::string>());
    if (sources.size() >= machine.sources.size() &&
        std::equal(machine.sources.begin(), machine.sources.end(), sources.begin())) {
      continue;
    }
    throw UsageError(
        fmt::format("{} has cases of {} whose numbers were others than now; name another file",
                    path, machine.name));
  }
}

/// What of the selected cases the file has already; drops them.
std::vector<Outcome> resume(std::vector<CaseGroup>& groups, const RecordWriter& writer) {
  const std::vector<std::string> wanted = wanted_ids(groups);
  const std::set<std::string> selected(wanted.begin(), wanted.end());
  std::vector<Outcome> outcomes;
  std::vector<std::string> finished;
  for (const RecordWriter::Finished& record : writer.finished()) {
    if (!selected.contains(record.id)) continue;
    outcomes.push_back(record.outcome);
    finished.push_back(record.id);
  }
  drop_finished(groups, finished);
  if (!finished.empty()) {
    say(fmt::format("{} cases were finished before{}", finished.size(),
                    groups.empty() ? ", nothing is left to run" : ""));
  }
  return outcomes;
}

/// "tpsp/mlp llama3-8b 8192 tokens bf16, 8 ranks: fastest: ..."; of cases with a time.
std::string verdict_line(const CaseGroup& cases, std::span<const Record> ranked) {
  const std::string verdict = tuning_verdict(ranked);
  return verdict.empty() ? "" : fmt::format("{}: {}\n", cases.title(), verdict);
}

int run_cases(const SimOptions& options, std::vector<CaseGroup>& groups,
              const SimulatedMachine& machine) {
  std::optional<RecordWriter> writer;
  std::vector<Outcome> outcomes;
  if (!options.out.empty()) {
    try {
      writer.emplace(options.out, options.resume);
      if (options.resume && !writer->finished().empty()) {
        require_same_numbers(options.out, machine.model);
      }
    } catch (const std::runtime_error& error) {
      throw UsageError(error.what());
    }
    outcomes = resume(groups, *writer);
  }
  std::vector<Record> records;
  std::string verdicts;
  const Progress progress(true, groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    progress.begin(i, groups[i].title());
    std::vector<Record> of_group = simulate_group(groups[i], machine);
    if (options.tune) {
      rank_by_time(of_group);
      verdicts += verdict_line(groups[i], of_group);
    }
    for (Record& record : of_group) {
      if (writer) writer->write(record);
      outcomes.push_back(record.outcome);
      records.push_back(std::move(record));
    }
  }
  progress.end();
  if (!records.empty()) fmt::print("{}", comparison_table(records));
  if (!verdicts.empty()) fmt::print("\n{}", verdicts);
  if (!options.out.empty()) say(fmt::format("records: {}", options.out));
  return exit_code_of(outcomes);
}

}  // namespace

int run_sim_session(const SimOptions& options) {
  if (options.action == Action::help || options.action == Action::version ||
      options.action == Action::list) {
    fmt::print("{}", options.action == Action::help      ? sim_help_text()
                     : options.action == Action::version ? sim_version_text() + "\n"
                                                         : list_sim());
    return kExitOk;
  }
  const SimulatedMachine machine{selected_machine(options), options.protocol,
                                 static_cast<std::size_t>(cores_of_this_thread()),
                                 available_bytes()};
  std::vector<CaseGroup> groups = selected_cases(options, machine.model);
  const std::string lacking = skip_unknown_ops(groups, *machine.model.compute);
  if (!lacking.empty()) say(lacking);
  if (options.action != Action::run) return print_cases(options, groups, machine);
  return run_cases(options, groups, machine);
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "harness/benchmark_output.h"
#include "harness/case.h"
#include "harness/cost_recording.h"
#include "harness/environment.h"
#include "harness/listing.h"
#include "harness/peak.h"
#include "harness/progress.h"
#include "harness/provenance.h"
#include "harness/record/table.h"
#include "harness/runner.h"
#include "harness/self_test.h"
#include "harness/traced_transfers.h"
#include "harness/world/cache_size.h"
#include "harness/world/cores.h"
#include "harness/world/free_memory.h"
#include "harness/world/say.h"
#include "harness/world/wire.h"
#include "suite/error.h"

namespace commfuse {
namespace {

/// Does something on rank 0 alone; its UsageError becomes everybody's.
template <class Action>
void on_root(World& world, Action action) {
  std::string error;
  if (world.rank() == 0) {
    try {
      action();
    } catch (const UsageError& usage) {
      error = usage.what();
    }
  }
  error = text_of(world.broadcast(bytes_of(error), 0));
  if (!error.empty()) throw UsageError(error);
}

std::vector<std::string> broadcast_lines(World& world, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  text = text_of(world.broadcast(bytes_of(text), 0));
  std::vector<std::string> all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    all.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

/// The records of a group on rank 0. Ranks beyond the group's meshes sleep until it is done.
std::vector<Record> run_on_active(const CaseGroup& cases, World& world, Launch& launch) {
  const bool takes_part = world.rank() < cases.mesh.ranks();
  const std::unique_ptr<World> active = world.split(takes_part ? 0 : -1);
  std::vector<Record> records;
  if (takes_part) {
    const std::unique_ptr<World> group = active->split(cases.mesh.group_of(active->rank()));
    records = run_group(cases, *active, *group, launch);
  }
  const auto phase = launch.watchdog.idle("waiting for the ranks that are measured");
  world.idle_barrier();
  return records;
}

/// What of the selected cases the file has already. Throws UsageError where a case was checked and
/// is to be timed: its record would stand in the way.
std::vector<RecordWriter::Finished> finished_before(const RecordWriter& writer,
                                                    const std::set<std::string>& selected,
                                                    const Options& options) {
  std::vector<RecordWriter::Finished> before;
  for (const RecordWriter::Finished& record : writer.finished()) {
    if (!selected.contains(record.id)) continue;
    if (record.outcome == Outcome::ok && !record.timed && !options.check_only) {
      throw UsageError(fmt::format(
          "{} has cases that were checked and not timed; name another file", options.out));
    }
    before.push_back(record);
  }
  return before;
}

void report(const Options& options, const BenchmarkRequest& request,
            const std::vector<Record>& records) {
  if (request.wanted) {
    const std::size_t left_out = present(request, records);
    if (left_out > 0) {
      say(fmt::format("{} cases without a time are not among the benchmark rows", left_out));
    }
  } else {
    fmt::print("{}", comparison_table(records));
  }
  if (!options.out.empty()) say(fmt::format("records: {}", options.out));
  std::fflush(stdout);
}

/// Ratios of a resumed group hold among its new rows; its times need not agree with the old ones.
void say_what_is_resumed(std::span<const CaseGroup> groups, std::size_t finished) {
  if (finished == 0) return;
  say(fmt::format("{} cases were finished before{}", finished,
                  groups.empty() ? ", nothing is left to run" : ""));
  for (const CaseGroup& group : groups) {
    if (!group.resumed) continue;
    say(
        fmt::format("{}: the rest is measured beside bounds of its own; compare ratios, not times, "
                    "with the rows of before",
                    group.title()));
  }
}

void require_different_files(const std::string& records, const std::string& rows) {
  std::error_code unknown;
  const auto place = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(path, unknown);
  };
  if (!rows.empty() && place(records) == place(rows)) {
    throw UsageError("--out and --benchmark_out name the same file");
  }
}

bool only_prints(const Options& options, const BenchmarkRequest& request) {
  return request.list || options.action != Action::run;
}

/// Returns the exit code.
int print_selection(const Options& options, const BenchmarkRequest& request,
                    const std::vector<CaseGroup>& groups, const Machine& machine) {
  if (request.list) {
    for (const CaseGroup& group : groups) {
      for (const CaseRow& row : group.rows) {
        if (row.wanted) fmt::print("{}\n", row.id);
      }
    }
  } else if (options.action == Action::list_json) {
    fmt::print("{}", list_json(groups));
  } else if (options.action == Action::dry_run) {
    fmt::print("{}", dry_run(groups, machine));
  } else {
    for (const std::string& line : skipped_lines(groups)) say(line);
    const std::string plans = explain(groups, options.action == Action::explain_dot);
    fmt::print("{}", plans);
    if (plans.empty()) return kExitAllSkipped;
  }
  return kExitOk;
}

/// Says what makes times doubtful, before anything is timed. Whether the run may go on.
bool times_may_be_taken(World& world, Launch& launch) {
  const auto phase = launch.watchdog.guard("looking for what disturbs times");
  const std::vector<std::string> doubts = launch.backend.doubts();
  const bool refused = launch.options.strict_env && !doubts.empty();
  if (world.rank() == 0 && launch.backend.name() != "host") {
    launch.environment["doubts"] = doubts;
    for (const std::string& doubt : doubts) say("times are doubtful: " + doubt);
    if (refused) say("--strict-env: nothing was timed");
  }
  return world.sum(refused ? 1 : 0) == 0;
}

/// Of one rank, while all of them measure; or alone, as ops are measured that ranks run in turn.
double measured_peak(World& world, Backend& backend, bool in_turn) {
  double peak = 0;
  for (std::int32_t turn = 0; turn < (in_turn ? world.ranks() : 1); ++turn) {
    world.barrier();
    if (!in_turn || turn == world.rank()) peak = backend.measured_peak();
  }
  return world.max(peak);
}

std::string facts_text(const Backend& backend) {
  std::string text = fmt::format("backend {}", backend.name());
  for (const auto& [name, value] : backend.libraries()) text += fmt::format(", {} {}", name, value);
  return text + "\n";
}

/// Says what is known after each step, so that an end in the middle leaves what was found.
int run_self_test(World& world, std::span<const CaseGroup> groups, Launch& launch,
                  std::optional<RecordWriter>& writer) {
  SelfTestReport report;
  const auto print = [&](const std::string& text) {
    if (world.rank() != 0) return;
    fmt::print("{}", text);
    std::fflush(stdout);
  };
  print(facts_text(launch.backend));
  for (const CaseGroup& group : groups) {
    const std::vector<Record> records = run_on_active(group, world, launch);
    if (writer) {
      for (const Record& record : records) writer->write(record);
    }
    print(report.group(group.title(), records));
  }
  const auto phase = launch.watchdog.guard("testing parts of the backend");
  if (launch.options.backend != "host" && launch.options.settings.profile && !groups.empty()) {
    print(report.part(trace_transfers(launch.backend, world, groups.front())));
  }
  for (const SelfTestPart& part : launch.backend.self_test()) print(report.part(part));
  print(report.summary());
  return static_cast<int>(world.sum(world.rank() == 0 ? report.exit_code() : 0));
}

/// What decides op times beside the ops, on rank 0.
void describe_costs(CostRecording& costs, const Launch& launch) {
  const bool host = launch.backend.name() == "host";
  nlohmann::ordered_json machine;
  machine["host"] = launch.environment["hosts"][0];
  machine["cpu"] = launch.environment["cpu"];
  machine["backend"] = launch.backend.name();
  if (!host) machine["gpu"] = launch.device.name;
  machine["libraries"] = launch.environment["libraries"];
  machine["cache"] = launch.options.rotate_cache ? "rotate" : "hot";
  if (!host) {
    const BackendSettings& settings = launch.options.settings;
    machine["gemm"] = {{"deterministic", settings.deterministic},
                       {"tf32", settings.tf32},
                       {"spared_sms", settings.spared_sms}};
  }
  costs.describe(machine, host ? "thread CPU time" : "device time");
}

/// After every group, as records are, so that an end in the middle loses one group at most.
void save_costs(World& world, CostRecording& costs, Watchdog& watchdog) {
  const auto phase = watchdog.guard("writing the costs of ops");
  costs.gather(world);
  on_root(world, [&] { costs.write(now_iso8601(), build_facts()["commit"]); });
}

void say_what_was_recorded(const CostRecording& costs) {
  const std::string path = costs.path().string();
  say(costs.measured() > 0 ? fmt::format("costs of {} ops: {}", costs.measured(), path)
                           : fmt::format("no op was measured, nothing is written to {}", path));
}

}  // namespace

int run_session(World& world, const Options& options, const MakeBackend& make_backend,
                Watchdog& watchdog) {
  const BenchmarkRequest request(options.benchmark_flags);
  std::vector<CaseGroup> groups = options.self_test
                                      ? self_test_cases(options, world.ranks(), world.one_node())
                                      : expand_cases(options, world.ranks(), world.one_node());
  if (!request.filter.empty()) {
    const auto phase = watchdog.guard("matching --benchmark_filter");
    // On one rank, since threads that compile regular expressions at once race inside libstdc++.
    on_root(world, [&] { filter_cases(groups, request.filter); });
    keep_cases(groups, broadcast_lines(world, wanted_ids(groups)));
  }
  if (only_prints(options, request)) {
    const std::int32_t cores = options.check_only ? 0 : node_cores(world).cores;
    const bool host = options.backend == "host";  // nobody asks a device for its memory here
    const Machine machine{cores, host ? available_bytes() : 0, world.one_node(),
                          host && !options.check_only ? last_level_cache_bytes() : 0};
    const int code = world.rank() == 0 ? print_selection(options, request, groups, machine) : 0;
    return static_cast<int>(world.sum(code));
  }

  std::optional<RecordWriter> writer;
  std::vector<Outcome> outcomes;
  std::vector<std::string> finished;
  on_root(world, [&] {
    check_benchmark_output(request);
    if (request.wanted && options.check_only) {
      throw UsageError("--check-only times nothing, so there are no rows for --benchmark_*");
    }
    if (options.out.empty()) return;
    require_different_files(options.out, request.out);
    try {
      writer.emplace(options.out, options.resume);
    } catch (const std::runtime_error& error) {
      throw UsageError(error.what());
    }
    const std::vector<std::string> wanted = wanted_ids(groups);
    for (const auto& before : finished_before(*writer, {wanted.begin(), wanted.end()}, options)) {
      outcomes.push_back(before.outcome);
      finished.push_back(before.id);
    }
  });
  if (!options.out.empty()) watchdog.results_in(options.out);
  drop_finished(groups, broadcast_lines(world, finished));
  if (world.rank() == 0) say_what_is_resumed(groups, finished.size());

  std::optional<CostRecording> costs;
  if (!options.record_costs.empty()) {
    costs.emplace(options.record_costs, options.resume);
    on_root(world, [&] { costs->open(); });
  }

  const std::unique_ptr<Backend> backend = make_backend();
  Launch launch{options,
                *backend,
                watchdog,
                describe_environment(world, backend->libraries()),
                0,
                node_cores(world).cores,
                parse_fault(options.fault),
                {}};
  if (!options.check_only && !groups.empty()) {
    if (!times_may_be_taken(world, launch)) return kExitDoubtful;
    const auto phase = watchdog.guard("measuring the gemm peak");
    const bool in_turn = options.replay && backend->op_timing() == OpTiming::in_turn;
    launch.peak_flops = measured_peak(world, *backend, in_turn);
    launch.device = agreed_device(world, backend->rank_device());
    if (in_turn) launch.device.ranks = 1;
    if (costs) {
      launch.costs = &*costs;
      on_root(world, [&] { describe_costs(*costs, launch); });
    }
  }
  if (options.self_test) return run_self_test(world, groups, launch, writer);
  std::vector<Record> records;
  const Progress progress(world.rank() == 0, groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    progress.begin(i, groups[i].title());
    for (Record& record : run_on_active(groups[i], world, launch)) {
      if (writer) writer->write(record);
      outcomes.push_back(record.outcome);
      records.push_back(std::move(record));
    }
    if (costs) save_costs(world, *costs, watchdog);
  }
  progress.end();
  std::int64_t code = 0;
  if (world.rank() == 0) {
    if (!records.empty()) report(options, request, records);
    code = exit_code_of(outcomes);
  }
  if (costs && world.rank() == 0) say_what_was_recorded(*costs);
  return static_cast<int>(world.sum(code));
}

}  // namespace commfuse

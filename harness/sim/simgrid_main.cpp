// SPDX-License-Identifier: Apache-2.0
// commfuse-simgrid: the selected cases by both engines, side by side.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "harness/case.h"
#include "harness/exit_codes.h"
#include "harness/option_parser.h"
#include "harness/selection_options.h"
#include "harness/sim/machine_model.h"
#include "harness/sim/simgrid_engine.h"
#include "harness/sim/simulation.h"
#include "harness/world/interrupts.h"
#include "harness/world/say.h"
#include "harness/world/standard_streams.h"
#include "suite/error.h"

namespace commfuse {
namespace {

struct SimGridOptions : Selection {
  std::string machine;
  std::string fat_tree;
  Action action = Action::run;
};

void declare(CLI::App& app, SimGridOptions& options, SelectionTexts& texts) {
  begin_options(app);
  declare_selection(app, texts, "8");
  app.add_option("--machine", options.machine,
                 "As in commfuse-sim: a name, a file.toml, or\n"
                 "ideal:flops=700T,link=400GB/s,latency=3us")
      ->group("MACHINE")
      ->type_name("NAME");
  app.add_option(
         "--fat-tree", options.fat_tree,
         "In SimGrid, ranks are the leaves of a tree whose links have the machine's speed:\n"
         "levels;children;parents;parallel links, as in \"2;4,4;1,2;1,2\"")
      ->group("MACHINE")
      ->type_name("TREE");
  app.footer(
      "Example:\n"
      "  commfuse-simgrid --machine ideal:flops=700T,link=400GB/s,latency=3us --workload "
      "'tpsp/gemm_rs' \\\n"
      "    --model llama3-70b --tokens 8K --dtype bf16 --ranks 2,8 --impl plain,commfuse\n\n"
      "Exit codes: 0 ok, 1 internal, 5 all skipped, 6 usage, 11 interrupted.\n");
}

std::string simgrid_help() {
  SimGridOptions options;
  SelectionTexts texts;
  CLI::App app(
      "Simulates the same cases by ports that serve first come, first served, and by\n"
      "SimGrid, where links are shared evenly. Messages go by protocol put.\n");
  declare(app, options, texts);
  app.get_formatter()->column_width(26);
  app.name("commfuse-simgrid");
  return app.help();
}

SimGridOptions parse(std::vector<std::string> arguments) {
  SimGridOptions options;
  if (arguments.empty()) {
    options.action = Action::help;
    return options;
  }
  SelectionTexts texts;
  CLI::App app;
  declare(app, options, texts);
  options.action = parse_arguments(app, std::move(arguments));
  if (options.action != Action::run) return options;
  fill_selection(texts, app, options);
  if (options.machine.empty()) throw UsageError("--machine is missing");
  if (app.count("--fat-tree") > 0 && options.fat_tree.empty()) {
    throw UsageError("--fat-tree takes a tree: \"2;4,4;1,2;1,2\"");
  }
  return options;
}

Simulation made(const CaseGroup& cases, const CaseRow& row, const MachineModel& machine) {
  const std::int32_t ranks = cases.mesh.group_ranks();
  const Workload workload = cases.workload->build(cases.shape, ranks);
  const Implementation implementation = make_implementation(row.impl, workload);
  Simulation simulation(machine.network, Protocol::put);
  const std::vector<std::int32_t> places = ranks_by_group(cases.mesh);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Plan plan = build_plan(implementation, workload, static_cast<std::int32_t>(i) % ranks);
    simulation.add(plan, places[i], op_times(*machine.compute, plan));
  }
  return simulation;
}

int compare(const SimGridOptions& options) {
  const MachineModel machine = find_machine(options.machine);
  CaseSetting setting;
  setting.backend = "sim";
  setting.places = machine.places;
  setting.machine = machine.name;
  const auto groups = expand_cases(options, selected_meshes(options, 8), setting);
  std::int32_t places = 1;
  for (const CaseGroup& group : groups) places = std::max(places, group.mesh.ranks());
  SimGridEngine simgrid(machine.network, places, options.fat_tree);
  const Interrupts interrupts;  // SimGrid has taken the signals; here they end the program

  bool any = false;
  fmt::print("{:<44} {:>14} {:>14} {:>11}\n", "", "ports us", "SimGrid us", "difference");
  for (const CaseGroup& group : groups) {
    fmt::print("{}\n", group.title());
    for (const CaseRow& row : group.rows) {
      if (!row.skip.empty()) {
        fmt::print("  {:<42} skipped: {}\n", row.impl, row.skip);
        continue;
      }
      Simulation ports = made(group, row, machine);
      ports.run();
      Simulation shares = made(group, row, machine);
      shares.run([&](EventGraph& graph, const Network&) { return simgrid.run(graph); });
      const double port_us = static_cast<double>(ports.end()) * 1e-6;
      const double share_us = static_cast<double>(shares.end()) * 1e-6;
      fmt::print("  {:<42} {:>14.3f} {:>14.3f} {:>9.4f} %\n", row.impl, port_us, share_us,
                 port_us > 0 ? 100 * (share_us / port_us - 1) : 0.0);
      any = true;
    }
  }
  return any ? kExitOk : kExitAllSkipped;
}

int run_simgrid(std::vector<std::string> arguments) {
  try {
    const SimGridOptions options = parse(std::move(arguments));
    if (options.action == Action::run) return compare(options);
    fmt::print("{}", simgrid_help());
    return kExitOk;
  } catch (const UsageError& error) {
    say(error.what());
    return kExitUsage;
  } catch (const std::exception& error) {
    if (std::ferror(stdout) == 0) say(error.what());
    return kExitInternal;
  }
}

}  // namespace
}  // namespace commfuse

int main(int argc, char** argv) {
  commfuse::begin_streams();
  return commfuse::end_streams(commfuse::run_simgrid({argv + 1, argv + argc}));
}

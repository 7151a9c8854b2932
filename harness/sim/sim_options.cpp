// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/sim_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "harness/option_parser.h"
#include "harness/provenance.h"
#include "suite/error.h"

namespace commfuse {
namespace {

constexpr std::string_view kSimFooter =
    R"(An option given twice counts once, as given last; --shape and --link add up.

Examples:
  commfuse-sim --machine ideal:flops=700T,link=400GB/s,latency=3us --workload tpsp/gemm_rs \
    --model llama3-70b --tokens 8K --dtype bf16 --ranks 2:64:*2 --impl plain,sliced:n=8,commfuse
  commfuse-sim --machine ideal:flops=700T,link=50GB/s,latency=5us --workload tpsp/mlp --dtype bf16 \
    --tokens 64K --mesh tp=8,dp=32 --on both --out results.jsonl   (256 ranks, no node needed)
  commfuse-sim --machine ideal:flops=700T,link=50GB/s,latency=5us --workload tpsp/layer --tune

Exit codes: 0 ok, 1 internal, 5 all skipped, 6 usage, 11 interrupted.
)";

struct SimTexts {
  SelectionTexts selection;
  OutputTexts output;
  std::string protocol = "put";
  std::vector<std::string> links;
};

void declare_machine(CLI::App& app, SimOptions& options, SimTexts& texts) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* text) {
    return app.add_option(name, value, text)->group("MACHINE")->type_name(type);
  };
  add("--machine", options.machine, "NAME",
      "What is modelled, see --list: a name, a file.toml, or\n"
      "ideal:flops=700T,link=400GB/s,latency=3us");
  add("--costs", options.costs, "FILE",
      "Ops take what commfuse-bench --record-costs measured; --machine or --link gives the "
      "network");
  add("--protocol", texts.protocol, "NAME",
      "When messages go: put (alone, as copy engines and NVSHMEM do), rendezvous (both sides, as\n"
      "MPI does) or joint (all of a group, as NCCL does)")
      ->capture_default_str();
  add("--link", texts.links, "LINK",
      "One node with this link instead of the machine's: 2GB/s,20us or unlimited or auto:R\n"
      "(collectives take R x compute); repeatable")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--tune", options.tune,
               "Instead of --impl: every schedule with every setting, ranked by time, and whether\n"
               "overlap pays")
      ->group("MACHINE");
}

void declare_sim(CLI::App& app, SimOptions& options, SimTexts& texts) {
  begin_options(app);
  declare_selection(app, texts.selection, "what the machine has, else 8");
  declare_machine(app, options, texts);
  declare_output(app, options, texts.output);
  app.add_option("--benchmark_filter", options.filter,
                 "Only cases whose names match; -REGEX: only the others")
      ->group("OUTPUT")
      ->type_name("REGEX");
  app.footer(std::string(kSimFooter));
}

}  // namespace

SimOptions parse_sim_options(std::vector<std::string> arguments) {
  SimOptions options;
  if (arguments.empty()) {
    options.action = Action::help;
    return options;
  }
  SimTexts texts;
  CLI::App app;
  declare_sim(app, options, texts);
  const Action asked = parse_arguments(app, std::move(arguments));
  if (asked != Action::run) {
    options.action = asked;
    return options;
  }
  fill_selection(texts.selection, app, options);
  fill_output(texts.output, app, options);
  if (options.tune && app.count("--impl") > 0) {
    throw UsageError("--tune tries every schedule: leave out --impl");
  }
  if (app.count("--costs") > 0 && options.costs.empty()) {
    throw UsageError("--costs takes a file name");
  }
  options.protocol = parse_protocol(texts.protocol);
  for (const std::string& link : texts.links) options.links.push_back(parse_link(link));
  return options;
}

std::string sim_help_text() {
  SimOptions options;
  SimTexts texts;
  CLI::App app(
      "Simulates one training workload under several communication schedules on a machine that "
      "need not be there.\n");
  declare_sim(app, options, texts);
  app.get_formatter()->column_width(26);
  app.name("commfuse-sim");
  return app.help();
}

std::string sim_version_text() {
  return fmt::format("commfuse-sim {}", build_facts()["version"].get<std::string>());
}

}  // namespace commfuse

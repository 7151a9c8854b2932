// SPDX-License-Identifier: Apache-2.0
#include "harness/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>

#include "harness/build_info.h"
#include "harness/option_parser.h"
#include "harness/option_values.h"
#include "harness/selection_options.h"
#include "impls/implementation.h"
#include "suite/error.h"
#include "suite/workload.h"

namespace commfuse {
namespace {

constexpr std::array kBenchmarkFlags{"filter",
                                     "list_tests",
                                     "format",
                                     "out",
                                     "out_format",
                                     "color",
                                     "counters_tabular",
                                     "context",
                                     "time_unit",
                                     "report_aggregates_only",
                                     "display_aggregates_only"};

constexpr std::string_view kFooter =
    R"(Google Benchmark's --benchmark_{filter,list_tests,format,out,out_format,...} work on rank 0.
An option given twice counts once, as given last; --shape and --link add up.

Examples:
  mpirun -np 2 commfuse-bench --workload tpsp/gemm_rs,tpsp/mlp --model llama3-8b --tokens 1K
  commfuse-bench --threads 2 --impl plain,sliced:n=2,commfuse:order=ring:m=4 --tokens 256:4K:*2
  mpirun -np 16 -N 8 --hostfile hosts commfuse-bench --transport mpi --out results.jsonl   (2 nodes)

Exit codes: 0 ok, 1 internal, 2 CUDA or --strict-env, 3 MPI or NCCL, 4 timeout, 5 all skipped or no device,
6 usage, 7 wrong results, 11 interrupted.
)";

// The texts that CLI11 fills in; they become values of Options afterwards, so that every complaint
// is ours.
struct Texts {
  SelectionTexts selection;
  OutputTexts output;
  std::vector<std::string> links;
  std::string transport, mode = "isolated", cache = "hot", backend = "host", gemm,
                         profiler = "cupti";
};

void declare_how(CLI::App& app, Options& options, Texts& texts) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* text) {
    return app.add_option(name, value, text)->group("HOW")->type_name(type);
  };
  add("--backend", texts.backend, "NAME", "host or cuda")->capture_default_str();
  add("--transport", texts.transport, "NAME",
      "host: paced (an emulated wire, one node) or mpi [paced on one node, else mpi];\n"
      "cuda: nccl or ce (copy engines, one node) [nccl, with --threads ce]");
  add("--link", texts.links, "LINK",
      "2GB/s,20us or unlimited or auto:R (collectives take R x compute); repeatable [auto:0.4]")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag(
         "--replay", options.replay,
         "Measure the compute, replay it with --link in simulated time: any number of ranks on\n"
         "any number of cores")
      ->group("HOW");
  add("--threads", options.threads, "P", "Ranks as threads of this process, no mpirun")
      ->check(within(1, 1024));
  add("--comm-ctas", options.settings.ctas_per_peer, "N", "cuda: CTAs per peer of an NCCL exchange")
      ->check(within(1, 64))
      ->capture_default_str();
  add("--spare-sms", options.settings.spared_sms, "N", "cuda: SMs that gemms leave free")
      ->check(within(0, 1024))
      ->capture_default_str();
  add("--profiler", texts.profiler, "NAME",
      "cuda: cupti (traced iterations beside the samples) or none, for others")
      ->capture_default_str();
  app.add_flag("--graph", options.settings.graph, "cuda: replay each iteration as a CUDA graph")
      ->group("HOW");
  add("--gemm", texts.gemm, "NAMES", "cuda: deterministic (no split-K), tf32 (for fp32)");
}

void declare_measurement(CLI::App& app, Options& options, Texts& texts) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* text) {
    return app.add_option(name, value, text)->group("MEASURE")->type_name(type);
  };
  add("--mode", texts.mode, "NAME",
      "isolated (a barrier before each iteration) or steady (back to back)")
      ->capture_default_str();
  add("--cache", texts.cache, "NAME",
      "hot, or rotate: sets of buffers take turns, so that no iteration finds its data in cache")
      ->capture_default_str();
  add("--repetitions", options.repetitions, "N",
      "Interleaved repetitions [10 and more, until the median is known to 1 %]")
      ->check(within(1, 1e6));
  add("--iterations", options.iterations, "N", "Iterations of a schedule per repetition")
      ->check(within(1, 1e6))
      ->capture_default_str();
  add("--warmup", options.warmup, "N", "Untimed iterations first")
      ->check(within(0, 1e6))
      ->capture_default_str();
  add("--time-limit", options.time_limit_s, "S",
      "Seconds of sampling per group of cases, beside calibrating --link auto")
      ->check(within(0.001, 1e6))
      ->capture_default_str();
  add("--timeout", options.timeout_s, "S",
      "Seconds without progress until the watchdog ends the run")
      ->check(within(1, 1e6))
      ->capture_default_str();
  add("--seed", options.seed, "N", "Of data and order")
      ->check(within(0, 1e18))
      ->capture_default_str();
  add("--peak-tflops", options.peak_tflops, "X",
      "What shares of peak refer to, per rank [cuda: the datasheet's dense peak where the\n"
      "device is known; else the best gemm measured here]")
      ->check(within(1e-6, 1e9));
  app.add_flag("--check-only", options.check_only, "Check results, time nothing")->group("MEASURE");
  app.add_flag("--strict-env", options.strict_env,
               "cuda: time nothing and end with 2 where times would be doubtful: other processes\n"
               "on a device, clocks not seen to be locked, throttling, links down")
      ->group("MEASURE");
  app.add_flag("--selftest", options.self_test,
               "Check this backend on this machine: every schedule on small shapes of every\n"
               "workload, and its parts")
      ->group("MEASURE");
}

void declare(CLI::App& app, Options& options, Texts& texts) {
  begin_options(app);
  declare_selection(app, texts.selection, "all ranks");
  declare_how(app, options, texts);
  declare_measurement(app, options, texts);
  declare_output(app, options, texts.output);
  app.add_option(
         "--record-costs", options.record_costs,
         "New JSON file: how long each op took alone, for commfuse-sim --costs; --resume adds")
      ->group("OUTPUT")
      ->type_name("FILE");
  app.add_option("--fault", options.fault)->group("");  // testing only
  app.footer(std::string(kFooter));
}

std::vector<std::string> take_benchmark_flags(std::vector<std::string>& arguments) {
  std::vector<std::string> flags;
  std::erase_if(arguments, [&](const std::string& argument) {
    const bool ours = argument.starts_with("--benchmark_");
    if (ours) flags.push_back(argument);
    return ours;
  });
  for (const std::string& flag : flags) {
    const std::string name = flag.substr(12, flag.find('=') - 12);
    if (name == "repetitions" || name == "min_time" || name == "min_warmup_time" ||
        name == "dry_run" || name == "enable_random_interleaving") {
      throw UsageError(
          fmt::format("--benchmark_{} does not apply: one sampler decides for all ranks; use "
                      "--repetitions, --warmup or --dry-run",
                      name));
    }
    if (std::ranges::find(kBenchmarkFlags, name) == kBenchmarkFlags.end()) {
      throw UsageError(fmt::format("--benchmark_{} is unknown; valid: --benchmark_{{{}}}", name,
                                   fmt::join(kBenchmarkFlags, ",")));
    }
  }
  return flags;
}

void fill_backend(const Texts& texts, const CLI::App& app, Options& options) {
  options.backend =
      one_of<std::string>("--backend", texts.backend, {{"host", "host"}, {"cuda", "cuda"}});
  const bool host = options.backend == "host";
  if (!texts.transport.empty()) {
    options.transport =
        one_of<std::string>("--transport", texts.transport,
                            {{"paced", "paced"}, {"mpi", "mpi"}, {"nccl", "nccl"}, {"ce", "ce"}});
    const bool of_host = options.transport == "paced" || options.transport == "mpi";
    if (of_host != host) {
      throw UsageError(fmt::format("--transport {} belongs to --backend {}", options.transport,
                                   of_host ? "host" : "cuda"));
    }
  }
  if (options.transport == "mpi" && options.threads > 0) {
    throw UsageError("--transport mpi needs ranks as MPI processes (mpirun), not --threads");
  }
  if ((options.transport == "mpi" || !host) && !options.replay && !texts.links.empty()) {
    throw UsageError(fmt::format(
        "--link belongs to --replay and to the emulated wire of --transport paced; {} uses the "
        "real one",
        host ? "mpi" : "cuda"));
  }
  for (const char* option :
       {"--comm-ctas", "--spare-sms", "--gemm", "--profiler", "--graph", "--strict-env"}) {
    if (host && app.count(option) > 0) {
      throw UsageError(fmt::format("{} belongs to --backend cuda", option));
    }
  }
  const bool copies = options.transport == "ce" ||
                      (options.transport.empty() && (options.threads > 0 || options.replay));
  if (!host && copies && app.count("--comm-ctas") > 0) {
    throw UsageError("--comm-ctas belongs to --transport nccl; copy engines take no CTAs");
  }
  options.settings.profile =
      one_of<bool>("--profiler", texts.profiler, {{"cupti", true}, {"none", false}});
  if (texts.gemm.empty()) return;
  for (const std::string& name : split(texts.gemm, ',')) {
    bool BackendSettings::*const field = one_of<bool BackendSettings::*>(
        "--gemm", name,
        {{"deterministic", &BackendSettings::deterministic}, {"tf32", &BackendSettings::tf32}});
    options.settings.*field = true;
  }
  const bool fp32 = std::ranges::find(options.dtypes, DType::f32) != options.dtypes.end();
  if (options.settings.tf32 && !fp32) throw UsageError("--gemm tf32 is for --dtype fp32");
}

void fill_self_test(const CLI::App& app, Options& options) {
  for (const char* option :
       {"--workload", "--impl", "--model", "--shape", "--layers", "--tokens", "--ranks", "--mesh",
        "--dtype", "--grad-dtype", "--bucket-size", "--resume"}) {
    if (app.count(option) > 0) {
      throw UsageError(fmt::format("--selftest selects its own cases: leave out {}", option));
    }
  }
  for (const char* option : {"--repetitions", "--iterations", "--warmup", "--time-limit",
                             "--peak-tflops", "--strict-env", "--replay"}) {
    if (app.count(option) > 0) {
      throw UsageError(fmt::format("--selftest times no schedule: leave out {}", option));
    }
  }
  options.check_only = true;
}

void require_replayable(const CLI::App& app, const Options& options) {
  if (!options.transport.empty()) {
    throw UsageError("--replay has a transport of its own, put: leave out --transport");
  }
  if (options.mode == Mode::steady) {
    throw UsageError("--replay replays single iterations: leave out --mode steady");
  }
  if (options.rotate_cache) {
    throw UsageError("--replay measures ops with one set of buffers: leave out --cache rotate");
  }
  if (app.count("--iterations") > 0) {
    throw UsageError("--replay takes one iteration per repetition: leave out --iterations");
  }
}

void require_recordable(const Options& options) {
  if (options.record_costs.empty()) throw UsageError("--record-costs takes a file name");
  if (options.check_only || options.self_test) {
    throw UsageError("--record-costs is about times: leave out --check-only and --selftest");
  }
  if (!options.out.empty() && options.out == options.record_costs) {
    throw UsageError("--out and --record-costs name the same file");
  }
}

void fill_rest(const Texts& texts, const CLI::App& app, Options& options) {
  fill_backend(texts, app, options);
  for (const std::string& link : texts.links) options.links.push_back(parse_link(link));
  options.mode =
      one_of<Mode>("--mode", texts.mode, {{"isolated", Mode::isolated}, {"steady", Mode::steady}});
  if (options.settings.graph && options.mode == Mode::steady) {
    throw UsageError("--graph replays isolated iterations only; leave out --mode steady");
  }
  options.rotate_cache = one_of<bool>("--cache", texts.cache, {{"hot", false}, {"rotate", true}});
  if (options.rotate_cache && options.mode == Mode::steady) {
    throw UsageError(
        "--cache rotate takes turns between isolated iterations: leave out --mode "
        "steady");
  }
  if (options.replay) require_replayable(app, options);
  fill_output(texts.output, app, options, !options.record_costs.empty());
  if (app.count("--record-costs") > 0) require_recordable(options);
  if (options.self_test) fill_self_test(app, options);
  if (options.strict_env && options.check_only) {
    throw UsageError("--strict-env is about times, and --check-only takes none");
  }
}

}  // namespace

Options parse_options(std::vector<std::string> arguments) {
  Options options;
  if (arguments.empty()) {
    options.action = Action::help;
    return options;
  }
  options.command_line = fmt::format("{}", fmt::join(arguments, " "));
  options.benchmark_flags = take_benchmark_flags(arguments);
  Texts texts;
  CLI::App app;
  declare(app, options, texts);
  const Action asked = parse_arguments(app, std::move(arguments));
  if (asked != Action::run) {
    options.action = asked;
    return options;
  }
  fill_selection(texts.selection, app, options);
  fill_rest(texts, app, options);
  return options;
}

std::string help_text() {
  Options options;
  Texts texts;
  CLI::App app(
      "Runs one training workload under several communication schedules and says where the time "
      "went.\n");
  declare(app, options, texts);
  app.get_formatter()->column_width(26);
  app.name("mpirun -np P commfuse-bench");
  return app.help();
}

std::string version_text() { return fmt::format("commfuse-bench {}", build_info::kVersion); }

}  // namespace commfuse

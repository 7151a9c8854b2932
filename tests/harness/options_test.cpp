// SPDX-License-Identifier: Apache-2.0
#include "harness/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "suite/error.h"

namespace commfuse {
namespace {

using ::testing::HasSubstr;
using Arguments = std::vector<std::string>;

std::string usage_error(const Arguments& arguments) {
  try {
    parse_options(arguments);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Options, Defaults) {
  const Options options = parse_options({"--check-only"});
  EXPECT_TRUE(options.check_only);
  EXPECT_EQ(options.shapes.size(), 1U);
  EXPECT_EQ(options.shapes[0].model, "llama3-8b");
  EXPECT_EQ(options.tokens, (std::vector<std::int32_t>{1024}));
  EXPECT_TRUE(options.links.empty());
}

TEST(Options, GraphsBelongToIsolatedIterationsOnCuda) {
  const BackendSettings graph = parse_options({"--backend", "cuda", "--graph"}).settings;
  EXPECT_TRUE(graph.graph);
  EXPECT_THAT(graph.text(), HasSubstr("issue=graph"));
  const BackendSettings calls = parse_options({"--backend", "cuda"}).settings;
  EXPECT_FALSE(calls.graph);
  EXPECT_THAT(calls.text(), HasSubstr("issue=calls"));
  EXPECT_EQ(usage_error({"--graph"}), "--graph belongs to --backend cuda");
  EXPECT_EQ(usage_error({"--strict-env"}), "--strict-env belongs to --backend cuda");
  EXPECT_THAT(usage_error({"--backend", "cuda", "--graph", "--mode", "steady"}),
              HasSubstr("isolated iterations only"));
}

TEST(Options, CaseG1ThePeakCanBeGiven) {
  EXPECT_EQ(parse_options({"--check-only"}).peak_tflops, 0);
  EXPECT_EQ(parse_options({"--peak-tflops", "989.5"}).peak_tflops, 989.5);
  EXPECT_THAT(usage_error({"--peak-tflops", "0"}), HasSubstr("--peak-tflops"));
}

TEST(Options, CaseB10TheCacheModeIsExplicit) {
  EXPECT_FALSE(parse_options({"--check-only"}).rotate_cache);
  EXPECT_FALSE(parse_options({"--cache", "hot", "--mode", "steady"}).rotate_cache);
  EXPECT_TRUE(parse_options({"--cache", "rotate"}).rotate_cache);
  EXPECT_TRUE(parse_options({"--backend", "cuda", "--cache", "rotate", "--graph"}).rotate_cache);
  EXPECT_THAT(usage_error({"--cache", "cold"}), HasSubstr("valid: hot, rotate"));
  EXPECT_THAT(usage_error({"--cache", "rotate", "--mode", "steady"}),
              HasSubstr("leave out --mode"));
}

TEST(Options, AReplaySaysWhatDoesNotGoWithIt) {
  EXPECT_FALSE(parse_options({"--check-only"}).replay);
  EXPECT_TRUE(parse_options({"--replay", "--threads", "8", "--link", "1GB/s,2us"}).replay);
  EXPECT_THAT(usage_error({"--replay", "--transport", "mpi"}), HasSubstr("leave out --transport"));
  EXPECT_THAT(usage_error({"--replay", "--transport", "paced"}),
              HasSubstr("leave out --transport"));
  EXPECT_THAT(usage_error({"--replay", "--mode", "steady"}), HasSubstr("leave out --mode steady"));
  EXPECT_THAT(usage_error({"--replay", "--cache", "rotate"}), HasSubstr("leave out --cache"));
  EXPECT_THAT(usage_error({"--replay", "--iterations", "2"}), HasSubstr("leave out --iterations"));
  EXPECT_THAT(usage_error({"--replay", "--selftest"}), HasSubstr("leave out --replay"));
  const Options cuda = parse_options({"--replay", "--backend", "cuda", "--link", "400GB/s,3us"});
  EXPECT_EQ(cuda.links.size(), 1U);
  EXPECT_THAT(usage_error({"--backend", "cuda", "--link", "1GB/s,2us"}), HasSubstr("--replay"));
  EXPECT_THAT(usage_error({"--replay", "--backend", "cuda", "--comm-ctas", "4"}),
              HasSubstr("copy engines"));
}

TEST(Options, EverythingTogether) {
  const Options options = parse_options({"--workload",
                                         "tpsp/mlp,tpsp/gemm_rs",
                                         "--impl=bulk,commfuse:order=direct:m=2",
                                         "--model",
                                         "llama3-8b,gpt3-175b",
                                         "--tokens",
                                         "256:1K:*2",
                                         "--mesh",
                                         "tp=2,dp=2",
                                         "--on",
                                         "tp",
                                         "--dtype",
                                         "fp32,bf16",
                                         "--link",
                                         "2GB/s,20us",
                                         "--link",
                                         "auto:0.7",
                                         "--threads",
                                         "4",
                                         "--mode",
                                         "steady",
                                         "--repetitions",
                                         "3",
                                         "--iterations",
                                         "5",
                                         "--time-limit",
                                         "1.5",
                                         "--timeout",
                                         "30",
                                         "--seed",
                                         "7",
                                         "--out",
                                         "x.jsonl",
                                         "--resume",
                                         "--benchmark_filter=gemm"});
  EXPECT_EQ(options.workloads.size(), 2U);
  EXPECT_EQ(options.impls.size(), 2U);
  EXPECT_EQ(options.shapes.size(), 2U);
  EXPECT_EQ(options.tokens.size(), 3U);
  EXPECT_EQ(options.meshes.front().ranks(), 4);
  EXPECT_EQ(options.dtypes.size(), 2U);
  EXPECT_EQ(options.links.size(), 2U);
  EXPECT_EQ(options.threads, 4);
  EXPECT_EQ(options.mode, Mode::steady);
  EXPECT_EQ(options.benchmark_flags, (Arguments{"--benchmark_filter=gemm"}));
}

TEST(Options, APassIsThatOfEveryPatternThatNamesNone) {
  EXPECT_EQ(parse_options({"--workload", "tpsp/*"}).workloads, (Arguments{"tpsp/*"}));
  EXPECT_EQ(parse_options({"--workload", "tpsp/*,dp/zero2:backward", "--pass", "forward,backward"})
                .workloads,
            (Arguments{"tpsp/*:forward", "tpsp/*:backward", "dp/zero2:backward"}));
  EXPECT_THAT(usage_error({"--workload", "tpsp/mlp_rs", "--pass", "backward"}),
              HasSubstr("workload 'tpsp/mlp_rs' has no pass 'backward'; valid: forward"));
  EXPECT_THAT(usage_error({"--workload", "dp/zero2:backward", "--pass", "forward"}),
              HasSubstr("contradict each other"));
  EXPECT_THAT(usage_error({"--pass", "sideways"}), HasSubstr("valid: forward, backward"));
}

TEST(Options, GradientsHaveADtypeAndBuckets) {
  const Options usual = parse_options({"--dtype", "bf16"});
  EXPECT_EQ(usual.gradient_dtypes, std::vector{DType::f32});
  EXPECT_EQ(usual.buckets, std::vector{0});
  const Options given = parse_options({"--grad-dtype", "fp32,bf16", "--bucket-size", "25M,1K"});
  EXPECT_EQ(given.gradient_dtypes, (std::vector{DType::f32, DType::bf16}));
  EXPECT_EQ(given.buckets, (std::vector{25 << 20, 1024}));
  EXPECT_THAT(usage_error({"--bucket-size", "0"}), HasSubstr("--bucket-size"));
  EXPECT_THAT(usage_error({"--grad-dtype", "int8"}), HasSubstr("valid: fp32, bf16, fp16"));
}

TEST(Options, OneLayerOfAModelRunsUnlessMoreAreAskedFor) {
  EXPECT_EQ(parse_options({"--model", "llama3-8b"}).shapes.front().layers, 1);
  EXPECT_EQ(parse_options({"--model", "llama3-8b", "--layers", "4"}).shapes.front().layers, 4);
  EXPECT_EQ(parse_options({"--shape", "hidden=64,layers=3"}).shapes.front().layers, 3);
  EXPECT_THAT(usage_error({"--shape", "hidden=64", "--layers", "3"}), HasSubstr("layers=N"));
  EXPECT_THAT(usage_error({"--layers", "0"}), HasSubstr("--layers"));
}

TEST(Options, WhatBelongsToOneBackendIsRefusedForAnother) {
  EXPECT_THAT(usage_error({"--transport", "nccl"}), HasSubstr("belongs to --backend cuda"));
  EXPECT_THAT(usage_error({"--backend", "cuda", "--transport", "mpi"}),
              HasSubstr("belongs to --backend host"));
  EXPECT_THAT(usage_error({"--backend", "cuda", "--link", "2GB/s"}), HasSubstr("the real one"));
  for (const char* option : {"--comm-ctas", "--spare-sms"}) {
    EXPECT_THAT(usage_error({option, "4"}), HasSubstr("belongs to --backend cuda"));
  }
  EXPECT_THAT(usage_error({"--gemm", "tf32"}), HasSubstr("belongs to --backend cuda"));
}

TEST(Options, SettingsOfADeviceAreNamed) {
  EXPECT_EQ(parse_options({"--backend", "cuda"}).settings.text(),
            "ctas=2,spared_sms=0,gemm=default,issue=calls");
  const Options options = parse_options({"--backend", "cuda", "--comm-ctas", "4", "--spare-sms",
                                         "8", "--gemm", "tf32,deterministic"});
  EXPECT_EQ(options.settings.text(), "ctas=4,spared_sms=8,gemm=deterministic+tf32,issue=calls");
}

TEST(Options, UnknownNamesListTheValidOnes) {
  EXPECT_THAT(usage_error({"--workload", "tpsp/none"}), HasSubstr("tpsp/gemm_rs"));
  EXPECT_THAT(usage_error({"--impl", "fused"}), HasSubstr("commfuse"));
  EXPECT_THAT(usage_error({"--impl", "commfuse:order=tree"}), HasSubstr("direct"));
  EXPECT_THAT(usage_error({"--impl", "sliced:k=2"}), HasSubstr("axis"));
  EXPECT_THAT(usage_error({"--model", "llama9"}), HasSubstr("llama3-8b"));
  EXPECT_THAT(usage_error({"--dtype", "fp8"}), HasSubstr("bf16, fp16"));
  EXPECT_THAT(usage_error({"--transport", "tcp"}), HasSubstr("paced, mpi, nccl, ce"));
  EXPECT_THAT(usage_error({"--backend", "rocm"}), HasSubstr("host, cuda"));
  EXPECT_THAT(usage_error({"--backend", "cuda", "--gemm", "fast"}),
              HasSubstr("deterministic, tf32"));
  EXPECT_THAT(usage_error({"--backend", "cuda", "--profiler", "nsys"}), HasSubstr("cupti, none"));
  EXPECT_THAT(usage_error({"--pass", "sideways"}), HasSubstr("forward"));
  EXPECT_THAT(usage_error({"--mode", "fast"}), HasSubstr("isolated, steady"));
  EXPECT_THAT(usage_error({"--benchmark_foo"}), HasSubstr("filter"));
  EXPECT_THAT(usage_error({"--list=xml"}), HasSubstr("json"));
}

TEST(Options, OneClearLine) {
  for (const Arguments& arguments :
       std::vector<Arguments>{{"--nonsense"},
                              {"extra"},
                              {"--tokens"},
                              {"--tokens", "0"},
                              {"--tokens", "-8"},
                              {"--tokens", "99999999999"},
                              {"--threads", "0"},
                              {"--threads", "x"},
                              {"--repetitions", "0"},
                              {"--iterations", "-1"},
                              {"--time-limit", "0"},
                              {"--timeout", "nan"},
                              {"--mesh", "tp=2"},
                              {"--on", "tp"},
                              {"--mesh", "tp=2", "--on", "tp", "--ranks", "2"},
                              {"--resume"},
                              {"--model", "llama3-8b", "--shape", "hidden=8,ffn=8,heads=1"},
                              {"--transport", "mpi", "--threads", "2"},
                              {"--transport", "mpi", "--link", "auto:0.4"},
                              {"--benchmark_repetitions=3"},
                              {"--benchmark_enable_random_interleaving=true"},
                              {"--shape", "hidden=0,ffn=8,heads=1"},
                              {"--impl", "commfuse:order=direct:accumulate=epilogue"},
                              {"--seed", "-1"}}) {
    const std::string error = usage_error(arguments);
    EXPECT_NE(error, "no error") << ::testing::PrintToString(arguments);
    EXPECT_EQ(std::ranges::count(error, '\n'), 0) << error;
  }
}

TEST(Options, TheSelfTestChecksCasesOfItsOwn) {
  const Options options = parse_options({"--selftest", "--threads", "3"});
  EXPECT_TRUE(options.self_test);
  EXPECT_TRUE(options.check_only);
  EXPECT_EQ(usage_error({"--selftest", "--impl", "plain"}),
            "--selftest selects its own cases: leave out --impl");
  EXPECT_EQ(usage_error({"--selftest", "--repetitions", "3"}),
            "--selftest times no schedule: leave out --repetitions");
  EXPECT_EQ(usage_error({"--backend", "cuda", "--gemm", "tf32", "--dtype", "bf16"}),
            "--gemm tf32 is for --dtype fp32");
  EXPECT_EQ(usage_error({"--backend", "cuda", "--threads", "2", "--comm-ctas", "4"}),
            "--comm-ctas belongs to --transport nccl; copy engines take no CTAs");
  EXPECT_EQ(usage_error({"--selftest", "--out", "r.jsonl", "--resume"}),
            "--selftest selects its own cases: leave out --resume");
}

TEST(Options, CostsAreRecordedInAFileOfTheirOwn) {
  EXPECT_EQ(parse_options({"--record-costs", "c.json"}).record_costs, "c.json");
  EXPECT_TRUE(parse_options({"--record-costs", "c.json", "--resume"}).resume);
  EXPECT_EQ(usage_error({"--record-costs", ""}), "--record-costs takes a file name");
  EXPECT_EQ(usage_error({"--record-costs", "c.json", "--check-only"}),
            "--record-costs is about times: leave out --check-only and --selftest");
  EXPECT_EQ(usage_error({"--record-costs", "c.json", "--selftest"}),
            "--record-costs is about times: leave out --check-only and --selftest");
  EXPECT_EQ(usage_error({"--record-costs", "c.json", "--out", "c.json"}),
            "--out and --record-costs name the same file");
}

TEST(Options, AStrictEnvironmentIsForTimes) {
  EXPECT_TRUE(parse_options({"--backend", "cuda", "--strict-env"}).strict_env);
  EXPECT_FALSE(parse_options({"--backend", "cuda"}).strict_env);
  EXPECT_EQ(usage_error({"--backend", "cuda", "--strict-env", "--check-only"}),
            "--strict-env is about times, and --check-only takes none");
  EXPECT_EQ(usage_error({"--backend", "cuda", "--strict-env", "--selftest"}),
            "--selftest times no schedule: leave out --strict-env");
}

TEST(Options, NothingPrintsTheHelp) {
  EXPECT_EQ(parse_options({}).action, Action::help);
  EXPECT_EQ(parse_options({"--help"}).action, Action::help);
  EXPECT_EQ(parse_options({"-h"}).action, Action::help);
  EXPECT_EQ(parse_options({"--version"}).action, Action::version);
  EXPECT_EQ(parse_options({"--list"}).action, Action::list);
  EXPECT_EQ(parse_options({"--list=json"}).action, Action::list_json);
  EXPECT_EQ(parse_options({"--explain=dot"}).action, Action::explain_dot);
}

TEST(Options, HelpFitsTwoScreens) {
  const std::string help = help_text();
  EXPECT_LE(std::ranges::count(help, '\n'), 80);
  EXPECT_THAT(help, HasSubstr("mpirun -np 2"));
  EXPECT_THAT(help, HasSubstr("--hostfile"));
  EXPECT_EQ(help.find("--fault"), std::string::npos);
}

}  // namespace
}  // namespace commfuse

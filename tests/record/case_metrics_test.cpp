// SPDX-License-Identifier: Apache-2.0
#include "harness/record/case_metrics.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/record/sample_records.h"

namespace commfuse {
namespace {

using test::interrupted;
using test::isolated;
using test::Parts;
using test::summary_of;

RankSummaries iteration(const std::vector<Parts>& ranks) {
  RankSummaries summaries;
  for (const Parts& rank : ranks) summaries.push_back(summary_of(rank));
  return summaries;
}

double value(const Record& record, const std::string& name) {
  const auto found = record.metrics.find(name);
  if (found == record.metrics.end()) {
    ADD_FAILURE() << "no metric " << name;
    return 0;
  }
  return found->second.value;
}

/// Five repetitions on two ranks whose ratios and times have different medians.
struct FiveRepetitions {
  FiveRepetitions() {
    for (const std::int64_t whole : {100, 102, 104, 106, 108}) {
      compute_only_iterations.push_back(iteration({{whole - 10}, {whole}}));
      comm_iterations.push_back(iteration({{0, 50}, {0, 51}}));
      quiet_iterations.push_back(iteration({{whole}, {whole + 5, 0, 0, 0, 3}}));
      plain_iterations.push_back(iteration({{whole, 0, 0, 50}, {whole, 0, 0, 50}}));
    }
    // Rank 1 has the largest compute_only window; rank 0 ends last by 2.
    for (const std::int64_t tail : {30, 10, 20, 50, 40}) {
      const auto whole = 100 + 2 * static_cast<std::int64_t>(run_iterations.size());
      run_iterations.push_back(iteration({{whole + 10 + tail}, {whole + 6, 0, 2, tail}}));
    }
  }

  Record measure() {
    compute_only = isolated(compute_only_iterations);
    comm_only = isolated(comm_iterations);
    quiet = isolated(quiet_iterations);
    plain = isolated(plain_iterations);
    run = isolated(run_iterations);
    samples.run = &run;
    samples.quiet = &quiet;
    samples.compute_only = &compute_only;
    samples.comm_only = &comm_only;
    samples.plain = &plain;
    Record record;
    record.ranks = 2;
    add_metrics(record, samples);
    return record;
  }

  std::vector<RankSummaries> compute_only_iterations, comm_iterations, quiet_iterations,
      plain_iterations, run_iterations;
  RunSamples compute_only, comm_only, quiet, plain, run;
  CaseSamples samples;
};

TEST(CaseMetrics, KeepsEverySampleOfEveryRank) {
  const Record record = FiveRepetitions().measure();
  EXPECT_EQ(record.samples.unit, "ns");
  EXPECT_EQ(record.samples.max_over_ranks, (std::vector<double>{140, 122, 134, 166, 158}));
  ASSERT_EQ(record.samples.per_rank.size(), 2U);
  EXPECT_EQ(record.samples.per_rank[0], (std::vector<double>{140, 122, 134, 166, 158}));
  EXPECT_EQ(record.samples.per_rank[1], (std::vector<double>{138, 120, 132, 164, 156}));
}

TEST(CaseMetrics, TakesMediansOfWaterfallsWithinRepetitions) {
  const Record record = FiveRepetitions().measure();
  EXPECT_EQ(value(record, "time"), 140);
  EXPECT_EQ(record.metrics.at("time").unit, "ns");
  EXPECT_EQ(value(record, "t_whole"), 104);
  EXPECT_EQ(value(record, "decomposition"), 5);
  EXPECT_EQ(value(record, "accumulate"), 3);
  EXPECT_EQ(value(record, "contention"), 1);
  EXPECT_EQ(value(record, "exposed"), 32);
  EXPECT_EQ(value(record, "exposed_head"), 0);
  EXPECT_EQ(value(record, "exposed_interior"), 2);
  EXPECT_EQ(value(record, "exposed_tail"), 30);
  EXPECT_EQ(value(record, "last_rank"), 2);
  EXPECT_EQ(value(record, "tail_span"), 30);
  // Within repetitions: 32/100, 12/102, 22/104, 52/106, 42/108.
  EXPECT_DOUBLE_EQ(value(record, "exposed_share"), 32.0 / 100);
  EXPECT_EQ(record.metrics.at("exposed_share").unit, "share");
}

TEST(CaseMetrics, PrintsTheWaterfallOfTheRepetitionWithTheMedianTime) {
  const auto waterfall = FiveRepetitions().measure().details.at("waterfall");
  EXPECT_EQ(waterfall.at("repetition"), 0);
  EXPECT_EQ(waterfall.at("rank"), 1);
  EXPECT_EQ(waterfall.at("t"), 140);
  EXPECT_EQ(waterfall.at("t_whole"), 100);
  EXPECT_EQ(waterfall.at("exposed_tail"), 30);
  EXPECT_EQ(waterfall.at("t").get<double>(),
            waterfall.at("t_whole").get<double>() + waterfall.at("decomposition").get<double>() +
                waterfall.at("contention").get<double>() + waterfall.at("exposed").get<double>() +
                waterfall.at("last_rank").get<double>());
  EXPECT_FALSE(waterfall.contains("note"));
}

TEST(CaseMetrics, ComparesWithinRepetitions) {
  FiveRepetitions five;
  five.samples.flops_per_rank = 1'400'000;
  five.samples.peak_flops_per_second = 2e13;
  five.samples.peak_name = "measured gemm peak";
  five.samples.moved_bytes = 2600;
  five.samples.link_bytes_per_second = 2e10;  // 130 ns
  const Record record = five.measure();
  EXPECT_DOUBLE_EQ(value(record, "r_effective"), 51.0 / 104);
  // T - T_whole: 40, 20, 30, 60, 50; plain always loses 50.
  EXPECT_EQ(value(record, "effective_comm"), 40);
  EXPECT_DOUBLE_EQ(value(record, "hidden_share"), 1 - 40.0 / 50);
  EXPECT_DOUBLE_EQ(value(record, "speedup_plain"), 150.0 / 140);
  EXPECT_DOUBLE_EQ(value(record, "overlap_omb"), 1 - 40.0 / 51);
  EXPECT_DOUBLE_EQ(value(record, "overlap_imb_nbc"), (51.0 + 100 - 140) / 100);
  EXPECT_EQ(value(record, "bound"), 130);
  EXPECT_DOUBLE_EQ(value(record, "distance"), 140.0 / 130);
  EXPECT_DOUBLE_EQ(value(record, "tflops_per_rank"), 10);
  EXPECT_EQ(record.metrics.at("tflops_per_rank").unit, "TFLOP/s");
  EXPECT_DOUBLE_EQ(value(record, "flops_utilisation"), 0.5);
  EXPECT_EQ(record.details.at("peak").at("name"), "measured gemm peak");
  EXPECT_EQ(record.details.at("peak").at("value"), 20);
  EXPECT_EQ(record.details.at("flops_per_rank"), 1'400'000);
}

TEST(CaseMetrics, CaseG1TheMeasuredPeakStaysBesideAnotherOne) {
  FiveRepetitions five;
  five.samples.flops_per_rank = 1'400'000;
  five.samples.peak_flops_per_second = 2e13;
  five.samples.peak_name = "bf16 peak (a datasheet)";
  five.samples.measured_peak_flops_per_second = 1.5e13;
  five.samples.measured_peak_name = "measured gemm peak";
  const Record record = five.measure();
  EXPECT_DOUBLE_EQ(value(record, "flops_utilisation"), 0.5);
  EXPECT_EQ(record.details.at("peak").at("name"), "bf16 peak (a datasheet)");
  EXPECT_FALSE(record.details.at("peak").contains("exceeded"));
  EXPECT_EQ(record.details.at("measured_peak").at("name"), "measured gemm peak");
  EXPECT_EQ(record.details.at("measured_peak").at("value"), 15);

  five.samples.peak_name = five.samples.measured_peak_name;
  five.samples.peak_flops_per_second = 0.9e13;
  const Record exceeded = five.measure();
  EXPECT_TRUE(exceeded.details.at("peak").at("exceeded"));
  EXPECT_FALSE(exceeded.details.contains("measured_peak"));
}

TEST(CaseMetrics, UnknownPeakAndLinkLeaveTheirMetricsOut) {
  const Record record = FiveRepetitions().measure();
  for (const char* name : {"bound", "distance", "tflops_per_rank", "flops_utilisation", "algbw",
                           "busbw", "mfu", "hfu"}) {
    EXPECT_FALSE(record.metrics.contains(name)) << name;
  }
  EXPECT_FALSE(record.details.contains("peak"));
}

/// 700 tokens a layer; the median time is 140 ns.
LayerCounts a_layer() {
  return {.tokens = 700,
          .shares = {{"mfu", 1'400'000, "needed"},
                     {"hfu", 1'750'000, "executed"},
                     {"mfu_palm", 2'100'000, "as PaLM"}},
          .model = "llama3-8b",
          .model_layers = 32};
}

TEST(CaseMetrics, WholeLayersHaveSharesByConventionAndTokens) {
  FiveRepetitions five;
  five.samples.flops_per_rank = 1'400'000;
  five.samples.peak_flops_per_second = 2e13;
  five.samples.layer = a_layer();
  const Record record = five.measure();
  EXPECT_DOUBLE_EQ(value(record, "flops_utilisation"), 0.5);
  EXPECT_DOUBLE_EQ(value(record, "mfu"), 0.5);
  EXPECT_DOUBLE_EQ(value(record, "hfu"), 0.625);
  EXPECT_DOUBLE_EQ(value(record, "mfu_palm"), 0.75);
  EXPECT_EQ(record.metrics.at("mfu").unit, "share");
  EXPECT_DOUBLE_EQ(value(record, "tokens_per_s"), 5e9);
  EXPECT_EQ(record.metrics.at("tokens_per_s").unit, "tokens/s");
  const auto& layer = record.details.at("layer");
  EXPECT_EQ(layer.at("tokens"), 700);
  EXPECT_EQ(layer.at("mfu_palm").at("flops_per_rank"), 2'100'000);
  EXPECT_EQ(layer.at("mfu_palm").at("convention"), "as PaLM");
}

TEST(CaseMetrics, OneLayerIsExtrapolatedToTheModelOfItsPreset) {
  FiveRepetitions five;
  five.samples.layer = a_layer();
  const Record record = five.measure();
  EXPECT_DOUBLE_EQ(value(record, "extrapolated_time"), 32 * 140);
  EXPECT_EQ(record.metrics.at("extrapolated_time").unit, "ns");
  EXPECT_DOUBLE_EQ(value(record, "extrapolated_tokens_per_s"), 5e9 / 32);
  const auto& extrapolation = record.details.at("extrapolation");
  EXPECT_EQ(extrapolation.at("model"), "llama3-8b");
  EXPECT_EQ(extrapolation.at("layers"), 32);
  EXPECT_NE(extrapolation.at("leaves_out").get<std::string>().find("optimizer"), std::string::npos);

  five.samples.layer->model_layers = 0;
  const Record of_no_preset = five.measure();
  EXPECT_TRUE(of_no_preset.metrics.contains("tokens_per_s"));
  EXPECT_FALSE(of_no_preset.metrics.contains("extrapolated_time"));
  EXPECT_FALSE(of_no_preset.metrics.contains("extrapolated_tokens_per_s"));
  EXPECT_FALSE(of_no_preset.details.contains("extrapolation"));
}

TEST(CaseMetrics, WithoutAPeakALayerHasTokensButNoShares) {
  FiveRepetitions five;
  five.samples.flops_per_rank = 1'400'000;
  five.samples.layer = a_layer();
  const Record record = five.measure();
  EXPECT_TRUE(record.metrics.contains("tokens_per_s"));
  for (const char* name : {"mfu", "hfu", "mfu_palm"}) {
    EXPECT_FALSE(record.metrics.contains(name)) << name;
  }
}

TEST(CaseMetrics, WhatIsExecutedAboveThePeakIsFlagged) {
  FiveRepetitions five;
  five.samples.flops_per_rank = 1'400'000;
  five.samples.layer = a_layer();
  five.samples.peak_flops_per_second = 1.4e13;  // mfu 0.71, hfu 0.89, mfu_palm 1.07
  const Record counted_twice = five.measure();
  EXPECT_GT(value(counted_twice, "mfu_palm"), 1);
  EXPECT_FALSE(counted_twice.details.at("peak").contains("exceeded"));
  five.samples.peak_flops_per_second = 1.2e13;  // mfu 0.83, hfu 1.04
  const Record exceeded = five.measure();
  EXPECT_LT(value(exceeded, "mfu"), 1);
  EXPECT_TRUE(exceeded.details.at("peak").at("exceeded"));
}

TEST(CaseMetrics, CommOnlyOfALayerComputesNothing) {
  const RunSamples run = isolated({iteration({{0, 1000}, {0, 900}})});
  CaseSamples samples;
  samples.kind = RowKind::comm_only;
  samples.run = &run;
  samples.layer = a_layer();
  samples.peak_flops_per_second = 1e13;
  Record record;
  record.ranks = 2;
  add_metrics(record, samples);
  for (const char* name : {"mfu", "tokens_per_s", "extrapolated_time"}) {
    EXPECT_FALSE(record.metrics.contains(name)) << name;
  }
}

TEST(CaseMetrics, RunsThatWereNotMadeLeaveTheirMetricsOut) {
  FiveRepetitions five;
  five.measure();
  const RunSamples empty;
  CaseSamples alone;
  alone.run = &five.run;
  alone.plain = &empty;
  Record record;
  add_metrics(record, alone);
  EXPECT_EQ(value(record, "time"), 140);
  for (const char* name : {"t_whole", "exposed", "hidden_share", "speedup_plain", "effective_comm",
                           "overlap_hta", "overlap_omb", "r_effective"}) {
    EXPECT_FALSE(record.metrics.contains(name)) << name;
  }
  EXPECT_FALSE(record.details.contains("waterfall"));
}

TEST(CaseMetrics, OnePlainIsItsOwnMeasure) {
  FiveRepetitions five;
  five.measure();
  five.samples.plain = &five.run;
  Record record;
  record.ranks = 2;
  add_metrics(record, five.samples);
  EXPECT_EQ(value(record, "speedup_plain"), 1);
  EXPECT_EQ(value(record, "hidden_share"), 0);
}

TEST(CaseMetrics, OneRankHasNothingToHide) {
  FiveRepetitions five;
  five.measure();
  five.samples.plain = &five.run;
  Record record;
  record.ranks = 1;
  add_metrics(record, five.samples);
  EXPECT_EQ(value(record, "speedup_plain"), 1);
  EXPECT_FALSE(record.metrics.contains("hidden_share"));
  EXPECT_FALSE(record.metrics.contains("overlap_omb"));
}

TEST(CaseMetrics, HtaOverlapIsThatOfTheWaterfallsRank) {
  FiveRepetitions five;
  for (RankSummaries& ranks : five.run_iterations) {
    ranks[0].transfer = 100;
    ranks[0].overlapped = 10;
    ranks[1].transfer = 100;
    ranks[1].overlapped = 75;
  }
  EXPECT_DOUBLE_EQ(value(five.measure(), "overlap_hta"), 0.75);
}

TEST(CaseMetrics, LeavesOutInterruptedRepetitions) {
  FiveRepetitions five;
  five.run_iterations[3][0] = interrupted({900});
  five.quiet_iterations[4][1] = interrupted({900});
  const Record record = five.measure();
  EXPECT_EQ(record.details.at("repetitions"), 5);
  EXPECT_EQ(record.details.at("preempted"), 2);
  EXPECT_EQ(record.details.at("preempted_repetitions"), (nlohmann::ordered_json{3, 4}));
  EXPECT_EQ(record.details.at("preempted_used"), false);
  EXPECT_EQ(value(record, "time"), 134);  // of 140, 122, 134
  EXPECT_EQ(record.samples.max_over_ranks.size(), 5U);
  EXPECT_EQ(record.details.at("distribution").at("max"), 900);
}

TEST(CaseMetrics, UsesInterruptedRepetitionsForLackOfOthers) {
  FiveRepetitions five;
  for (const std::size_t i : {0U, 1U, 2U}) five.run_iterations[i][0] = interrupted({900});
  const Record record = five.measure();
  EXPECT_EQ(record.details.at("preempted"), 3);
  EXPECT_EQ(record.details.at("preempted_used"), true);
  EXPECT_EQ(value(record, "time"), 900);
}

TEST(CaseMetrics, PairsOnlyRepetitionsThatAllRunsHave) {
  FiveRepetitions five;
  five.quiet_iterations.resize(3);
  const Record record = five.measure();
  EXPECT_EQ(record.details.at("repetitions"), 3);
  EXPECT_EQ(value(record, "time"), 134);
  EXPECT_EQ(record.samples.max_over_ranks.size(), 5U);
}

TEST(CaseMetrics, SteadyRepetitionsAreComparedByTheirMiddleIteration) {
  RunSamples run;
  run.repetitions = {{iteration({{130}}), iteration({{110}}), iteration({{120}})},
                     {iteration({{150}}), RankSummaries{interrupted({10})}, iteration({{140}})},
                     {iteration({{160}}), iteration({{160}}), iteration({{160}})}};
  const RunSamples compute_only =
      isolated({iteration({{100}}), iteration({{100}}), iteration({{100}})});
  CaseSamples samples;
  samples.run = &run;
  samples.compute_only = &compute_only;
  Record record;
  add_metrics(record, samples);
  EXPECT_EQ(record.details.at("preempted"), 0);    // an undisturbed iteration remained
  EXPECT_EQ(value(record, "effective_comm"), 40);  // of 20, 40 (lower of two), 60
  EXPECT_EQ(value(record, "time"), 145);           // over iterations, the interrupted one left out
  EXPECT_EQ(record.samples.max_over_ranks.size(), 9U);
}

TEST(CaseMetrics, case_A8_names_the_slowest_rank_and_its_host) {
  FiveRepetitions five;
  five.samples.hosts = {"node0", "node7"};
  const Record record = five.measure();
  const auto& ranks = record.details.at("ranks");
  EXPECT_EQ(ranks.at("median"), (nlohmann::ordered_json{140.0, 138.0}));
  EXPECT_EQ(ranks.at("slowest"), 0);
  EXPECT_EQ(ranks.at("slowest_host"), "node0");
  EXPECT_DOUBLE_EQ(value(record, "skew"), 140.0 / 139);
}

TEST(CaseMetrics, case_B1_distribution_has_percentiles_only_where_known) {
  const auto distribution = FiveRepetitions().measure().details.at("distribution");
  EXPECT_EQ(distribution.at("count"), 5);
  EXPECT_EQ(distribution.at("min"), 122);
  EXPECT_EQ(distribution.at("p50"), 140);
  EXPECT_EQ(distribution.at("max"), 166);
  EXPECT_FALSE(distribution.contains("p90"));

  std::vector<RankSummaries> many;
  for (int i = 0; i < 99; ++i) many.push_back(iteration({{1000 + i % 3}}));
  many.push_back(iteration({{42'000}}));
  const RunSamples run = isolated(many);
  CaseSamples samples;
  samples.run = &run;
  Record record;
  add_metrics(record, samples);
  const auto& known = record.details.at("distribution");
  EXPECT_TRUE(known.contains("p99"));
  EXPECT_FALSE(known.contains("p999"));
  EXPECT_EQ(known.at("outliers"),
            nlohmann::ordered_json::parse(R"([{"index":99,"time":42000.0}])"));
}

TEST(CaseMetrics, CommOnlyHasBandwidths) {
  const RunSamples run = isolated({iteration({{0, 1000}, {0, 900}, {0, 800}, {0, 700}})});
  CaseSamples samples;
  samples.kind = RowKind::comm_only;
  samples.run = &run;
  samples.collectives = {{"all_gather", 3000}, {"all_reduce", 1000}};
  samples.flops_per_rank = 1'000'000;
  Record record;
  record.ranks = 4;
  add_metrics(record, samples);
  EXPECT_DOUBLE_EQ(value(record, "algbw"), 4e9);
  EXPECT_EQ(record.metrics.at("algbw").unit, "B/s");
  EXPECT_DOUBLE_EQ(value(record, "busbw"), (3000 * 0.75 + 1000 * 1.5) / 1000e-9);
  EXPECT_FALSE(record.metrics.contains("tflops_per_rank"));
}

TEST(CaseMetrics, BoundsHaveNoLosses) {
  FiveRepetitions five;
  five.samples.kind = RowKind::compute_only;
  five.samples.flops_per_rank = 1000;
  const Record record = five.measure();
  EXPECT_FALSE(record.metrics.contains("exposed"));
  EXPECT_FALSE(record.metrics.contains("speedup_plain"));
  EXPECT_TRUE(record.metrics.contains("tflops_per_rank"));
  EXPECT_TRUE(record.metrics.contains("r_effective"));
}

TEST(CaseMetrics, OfOneRankWithoutCommunication) {
  const RunSamples compute = isolated({iteration({{100}}), iteration({{100}}), iteration({{100}})});
  const RunSamples nothing = isolated({iteration({{}}), iteration({{}}), iteration({{}})});
  CaseSamples samples;
  samples.run = samples.quiet = samples.compute_only = samples.plain = &compute;
  samples.comm_only = &nothing;
  Record record;
  add_metrics(record, samples);
  EXPECT_EQ(value(record, "exposed"), 0);
  EXPECT_EQ(value(record, "r_effective"), 0);
  EXPECT_EQ(value(record, "speedup_plain"), 1);
  EXPECT_FALSE(record.metrics.contains("hidden_share"));
  EXPECT_FALSE(record.metrics.contains("overlap_omb"));

  samples.run = samples.compute_only = samples.plain = samples.quiet = &nothing;
  Record empty;
  add_metrics(empty, samples);
  EXPECT_EQ(value(empty, "time"), 0);
  for (const auto& [name, metric] : empty.metrics) EXPECT_EQ(metric.value, 0) << name;
}

TEST(CaseMetrics, ReplaySaysWhyContentionIsZero) {
  FiveRepetitions five;
  five.measure();
  Record record;
  record.clock = Clock::replayed;
  record.details = {{"seed", 7}};
  add_metrics(record, five.samples);
  EXPECT_NE(record.details.at("waterfall").at("note").get<std::string>().find("by construction"),
            std::string::npos);
  EXPECT_EQ(record.details.at("seed"), 7);  // what the caller put there stays
}

TEST(CaseMetrics, RefusesSamplesThatCannotBe) {
  Record record;
  CaseSamples samples;
  EXPECT_THROW(add_metrics(record, samples), std::invalid_argument);
  const RunSamples empty;
  samples.run = &empty;
  EXPECT_THROW(add_metrics(record, samples), std::invalid_argument);
  const RunSamples one = isolated({iteration({{1}})});
  const RunSamples two = isolated({iteration({{1}, {2}})});
  samples.run = &one;
  samples.compute_only = &two;
  EXPECT_THROW(add_metrics(record, samples), std::invalid_argument);
  RunSamples hollow;
  hollow.repetitions.resize(1);
  samples.compute_only = &hollow;
  EXPECT_THROW(add_metrics(record, samples), std::invalid_argument);
}

}  // namespace
}  // namespace commfuse

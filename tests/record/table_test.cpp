// SPDX-License-Identifier: Apache-2.0
#include "harness/record/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/record/golden_file.h"
#include "tests/record/sample_records.h"

namespace commfuse {
namespace {

using test::Measured;
using test::measured_record;

std::string line_with(const std::string& table, const std::string& word) {
  std::istringstream stream(table);
  for (std::string line; std::getline(stream, line);) {
    if (line.find(word) != std::string::npos) return line;
  }
  return "";
}

/// The row of an implementation as the table calls it.
std::string row_of(const std::string& table, const std::string& impl) {
  std::istringstream stream(table);
  for (std::string line; std::getline(stream, line);) {
    const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
    if (line.substr(begin).starts_with(impl + ' ')) return line;
  }
  return "";
}

bool says(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

std::size_t widest_line(const std::string& table) {
  std::size_t widest = 0;
  std::istringstream stream(table);
  for (std::string line; std::getline(stream, line);) widest = std::max(widest, line.size());
  return widest;
}

/// Table text from records on disk, as a report makes it; record_test keeps those files.
void expect_golden_table(const std::string& name) {
  test::expect_golden(name + ".txt",
                      comparison_table(read_records(test::golden_path(name + ".jsonl"))));
}

TEST(Table, GoldenComparison) { expect_golden_table("comparison"); }
TEST(Table, GoldenOutcomes) { expect_golden_table("record"); }
TEST(Table, GoldenLayer) { expect_golden_table("layer"); }
TEST(Table, GoldenSweep) { expect_golden_table("sweep"); }

TEST(Table, FitsATerminal) {
  EXPECT_LE(widest_line(comparison_table(test::comparison_records())), 160U);
  EXPECT_LE(widest_line(comparison_table(test::sweep_records())), 160U);
  EXPECT_LE(widest_line(comparison_table(test::layer_records())), 160U);
}

TEST(Table, WholeLayersHaveAnMfuInPlaceOfStagesUtilisation) {
  std::vector<Record> records = test::layer_records();
  const std::string table = comparison_table(records);
  EXPECT_TRUE(says(table, "mfu: share of measured gemm peak, 1 TFLOP/s per rank.")) << table;
  EXPECT_TRUE(says(table, "mfu counts what a whole layer needs")) << table;
  EXPECT_TRUE(says(table, "is up to 1.020 x mfu.")) << table;
  EXPECT_TRUE(says(row_of(table, "plain"), "69.3    11.8")) << table;  // 1024 tokens in 86.78 ms
  EXPECT_FALSE(says(table, "flops")) << table;

  for (Record& record : records) {  // forward: nothing is computed again
    if (record.metrics.contains("mfu")) record.metrics["hfu"] = record.metrics["mfu"];
  }
  EXPECT_FALSE(says(comparison_table(records), "hfu"));
  for (const Record& record : test::comparison_records()) records.push_back(record);
  EXPECT_TRUE(says(comparison_table(records), "flops and mfu: share of")) << table;
}

TEST(Table, OneLayerIsExtrapolatedByTheFastestSchedule) {
  std::vector<Record> records = test::layer_records();
  // 32 x the median of 63.56 ms.
  EXPECT_TRUE(says(comparison_table(records),
                   "\n  extrapolated to the 32 layers of llama3-8b: 2.04 s, 502 tokens/s "
                   "(commfuse:m=2)\n"))
      << comparison_table(records);
  EXPECT_TRUE(says(comparison_table(records), "left out: embedding, output"));
  records[3].outcome = Outcome::wrong;
  EXPECT_TRUE(says(comparison_table(records), " tokens/s (plain)\n"));
  records[2].mode = "steady";
  EXPECT_FALSE(says(comparison_table(records), "extrapolated to"));
  EXPECT_FALSE(says(comparison_table(test::comparison_records()), "extrapolated"));
}

TEST(Table, TokensHaveThreeDigits) {
  const auto shown = [](double tokens_per_s) {
    Record record = measured_record({"plain", RowKind::schedule, {1000}, {2000}});
    record.metrics["tokens_per_s"] = {tokens_per_s, "tokens/s"};
    const std::string row = row_of(comparison_table(std::vector{record}), "plain");
    return row.substr(row.rfind(' ') + 1);
  };
  EXPECT_EQ(shown(1'638'400), "1638");
  EXPECT_EQ(shown(11'840), "11.8");
  EXPECT_EQ(shown(3'414), "3.41");
  EXPECT_EQ(shown(341.4), "0.341");
}

/// The comparison with this mean clock of the device in each of the rows that have a speed.
std::string table_with_clocks(const std::vector<double>& clocks) {
  std::vector<Record> records = test::comparison_records();
  for (std::size_t i = 0; i < clocks.size(); ++i) {
    records[i].details["device_state"] = {{"clock_mhz", {{"mean", clocks[i]}}}};
  }
  return comparison_table(records);
}

TEST(Table, SaysWhereClocksOfDevicesDiffer) {
  // compute_only, comm_only, plain: what only communicates does not count.
  const std::string table = table_with_clocks({1980, 300, 1755});
  EXPECT_EQ(line_with(table, "clocks differ"),
            "  clocks differ: 1755 MHz (plain) to 1980 MHz (compute_only); part of the difference "
            "in time is theirs")
      << table;
  EXPECT_FALSE(says(table_with_clocks({1980, 300, 1965}), "clocks differ"));  // by less than 1 %
  EXPECT_FALSE(says(table_with_clocks({1980}), "clocks differ"));
  EXPECT_FALSE(says(table_with_clocks({1980, 1980, 0}), "clocks differ"));  // not known
  EXPECT_FALSE(says(comparison_table(test::comparison_records()), "clocks differ"));
}

TEST(Table, OneRankIsSaidToHaveNobodyToCommunicateWith) {
  std::vector<Record> records = test::comparison_records();
  EXPECT_FALSE(says(comparison_table(records), "One rank"));
  for (Record& record : records) record.ranks = 1;
  EXPECT_TRUE(says(comparison_table(records), "One rank has nobody to communicate with"));
}

TEST(Table, WhatWasOnlyCheckedNamesItsBound) {
  std::vector<Record> records{measured_record({"plain", RowKind::schedule, {1000}, {2000}})};
  records[0].metrics.clear();
  records[0].check->bound = "float64 within 3 * eps";
  EXPECT_TRUE(says(comparison_table(records), "\nok bound: float64 within 3 * eps.\n"));
}

TEST(Table, CommunicationAloneHasAUnitThatFits) {
  std::vector<Record> records = test::comparison_records();
  std::erase_if(records, [](const Record& record) { return record.impl != "comm_only"; });
  EXPECT_TRUE(says(comparison_table(records), "  ms\n")) << comparison_table(records);
}

TEST(Table, OfNoRecords) { EXPECT_EQ(comparison_table({}), "no records\n"); }

TEST(Table, case_C2_shows_no_speed_of_a_wrong_result) {
  const std::string row = line_with(comparison_table(test::outcome_records()), "WRONG");
  EXPECT_TRUE(says(row, "WRONG 17")) << row;
  EXPECT_TRUE(says(row, "rank 1 result[3, 17]: got 4, want 5 (largest error 1, relative 0.2)"))
      << row;
  EXPECT_FALSE(says(row, "0.000")) << row;
}

TEST(Table, case_C2_shows_no_speed_without_a_check) {
  std::vector<Record> records{measured_record({"plain", RowKind::schedule, {1000}, {2000}})};
  records[0].check.reset();
  const std::string table = comparison_table(records);
  EXPECT_TRUE(says(row_of(table, "plain"), "unchecked  no speed without a check")) << table;
  EXPECT_FALSE(says(table, "time")) << table;
  records[0].clock = Clock::modelled;  // nothing to check but the plan
  EXPECT_TRUE(says(row_of(comparison_table(records), "plain"), "ok plan"));
}

TEST(Table, case_C8_says_which_comparison_a_check_used) {
  const std::string table = comparison_table(test::outcome_records());
  EXPECT_TRUE(says(row_of(table, "compute_only"), "ok exact")) << table;
  EXPECT_TRUE(says(row_of(table, "plain"), "ok bound")) << table;
  EXPECT_TRUE(says(table, "ok bound: float64 within 4 * eps * (k + ranks).")) << table;
}

TEST(Table, case_D2_shows_a_speed_up_below_one) {
  const std::string table = comparison_table(std::vector{
      measured_record({"commfuse:m=1", RowKind::schedule, {100'000'000}, {100'000'000}})});
  EXPECT_TRUE(says(row_of(table, "commfuse:m=1"), "  0.86  ")) << table;
}

Record timed(const std::string& impl, double time_ns) {
  Record record = measured_record({impl, RowKind::schedule, {1'000'000}, {1'000'000}});
  record.metrics["time"].value = time_ns;
  return record;
}

TEST(Table, case_D2_names_the_best_of_several_baselines) {
  std::vector<Record> records{timed("plain", 5e6), timed("plain:collective=registered", 4.5e6),
                              timed("plain:collective=symmetric", 4e6),
                              timed("commfuse:order=ring:m=1", 3.8e6),
                              timed("commfuse:order=direct:m=1", 4.4e6)};
  const std::string all = comparison_table(records);
  EXPECT_TRUE(says(all,
                   "\n  best baseline: plain:collective=symmetric, 1.25 x plain; "
                   "commfuse:order=ring:m=1 takes 0.95 of its time\n"))
      << all;
  for (const char* impl : {"plain", "plain:collective=registered", "plain:collective=symmetric"}) {
    EXPECT_FALSE(row_of(all, impl).empty()) << impl << " in\n" << all;
  }
  records[2].outcome = Outcome::skipped;
  EXPECT_TRUE(
      says(comparison_table(records), "best baseline: plain:collective=registered, 1.11 x"));
  records.resize(2);
  records[0].metrics["time"].value = 4e6;
  EXPECT_TRUE(says(comparison_table(records), "\n  best baseline: plain\n"));
  records[1].outcome = Outcome::skipped;
  EXPECT_FALSE(says(comparison_table(records), "\n  best baseline"));
}

TEST(Table, BaselinesOfOtherControlsAreNotCompared) {
  std::vector<Record> records{timed("plain", 5e6), timed("plain:collective=registered", 4.5e6)};
  records[1].mode = "steady";
  EXPECT_FALSE(says(comparison_table(records), "\n  best baseline"));
}

TEST(Table, ReasonsStayOnOneLine) {
  const std::string row = line_with(comparison_table(test::outcome_records()), "failed");
  EXPECT_TRUE(row.ends_with("rank 1: injected failure")) << row;
}

TEST(Table, DiffersInClockIsSaid) {
  std::vector<Record> records = test::comparison_records();
  records[3].clock = Clock::replayed;
  const std::string table = comparison_table(records);
  EXPECT_TRUE(says(table, "controls differ: clock (wall, replayed)")) << table;
  EXPECT_TRUE(says(row_of(table, "sliced:n=4"), "replayed")) << table;
  EXPECT_TRUE(says(table, "contend is 0 by construction in replayed rows")) << table;
}

TEST(Table, ModelledRowsNameTheirMachineAndStandApart) {
  auto records = test::comparison_records();
  const std::string measured = comparison_table(records);
  EXPECT_TRUE(says(measured, "Medians are of ")) << measured;
  for (Record& record : records) {
    record.clock = Clock::modelled;
    record.check.reset();
    record.details["machine"] = {{"name", "ideal:flops=1T,link=1GB/s"}};
  }
  const std::string table = comparison_table(records);
  EXPECT_TRUE(says(table, "machine ideal:flops=1T,link=1GB/s")) << table;
  EXPECT_TRUE(says(table, "clock modelled")) << table;
  EXPECT_TRUE(says(row_of(table, "sliced:n=4"), "ok plan")) << table;
  EXPECT_TRUE(says(table, "contend is 0 by construction in modelled rows")) << table;
  EXPECT_FALSE(says(table, "Medians are of ")) << table;
  // Beside measured ones they are another comparison.
  const auto wall = test::comparison_records();
  records.insert(records.end(), wall.begin(), wall.end());
  EXPECT_TRUE(says(comparison_table(records), "no machine")) << comparison_table(records);
}

TEST(Table, case_G_names_the_peak_and_flags_more_than_all_of_it) {
  std::vector<Record> records = test::comparison_records();
  EXPECT_TRUE(
      says(comparison_table(records), "flops: share of measured gemm peak, 1 TFLOP/s per rank."));
  EXPECT_FALSE(says(comparison_table(records), "above 100 %"));
  records[3].details["peak"]["value"] = 0.99;
  records[4].details["peak"]["value"] = 0.98;
  EXPECT_TRUE(says(comparison_table(records), "gemm peak, 0.98 to 1 TFLOP/s per rank."));
  for (Record& record : records) record.details["peak"]["value"] = 0.081;
  EXPECT_TRUE(says(comparison_table(records), "gemm peak, 81 GFLOP/s per rank."));
  records[4].metrics["flops_utilisation"].value = 1.2;
  EXPECT_TRUE(says(comparison_table(records), "flops above 100 %"));

  std::vector<Record> layer = test::layer_records();
  EXPECT_GT(layer[0].metrics["mfu_palm"].value, 1);  // counts what nobody computes
  EXPECT_FALSE(says(comparison_table(layer), "above 100 %"));
  layer[0].metrics["hfu"].value = 1.01;
  EXPECT_TRUE(says(comparison_table(layer), "mfu above 100 %"));
}

TEST(Table, CaseG1WhatWasMeasuredIsNamedBesideAnotherPeak) {
  std::vector<Record> records = test::comparison_records();
  for (Record& record : records) {
    record.details["measured_peak"] = record.details["peak"];
    record.details["peak"] = {{"name", "bf16 peak (some datasheet, dense)"}, {"value", 989.5}};
  }
  const std::string table = comparison_table(records);
  EXPECT_TRUE(says(table, "share of bf16 peak (some datasheet, dense), 990 TFLOP/s per rank."))
      << table;
  EXPECT_TRUE(says(table, "Beside it: measured gemm peak, 1 TFLOP/s per rank.")) << table;
}

TEST(Table, TailIsNeverTakenForAPercentile) {
  EXPECT_TRUE(says(comparison_table(test::comparison_records()), "tail is exposed_tail"));
}

TEST(Table, PercentileColumnAppearsWhereThereAreSamples) {
  std::vector<Record> records = test::comparison_records();
  EXPECT_FALSE(says(comparison_table(records), "  p95"));
  records[3].details["distribution"]["p95"] = 77'770'000.0;
  const std::string table = comparison_table(records);
  EXPECT_TRUE(says(table, "  p95"));
  EXPECT_TRUE(says(row_of(table, "sliced:n=4"), "77.77")) << table;
}

TEST(Table, CountsInterruptedRepetitions) {
  std::vector<Record> records = test::comparison_records();
  records.resize(4);
  EXPECT_TRUE(says(comparison_table(records), "of 48 repetitions were left out"));
  records[3].details["preempted_used"] = true;
  EXPECT_TRUE(says(comparison_table(records), "1 row uses interrupted repetitions"));
}

TEST(Table, UnitsFollowTheTimes) {
  const auto header_for = [](std::int64_t ns) {
    Record record = measured_record({"plain", RowKind::schedule, {ns}, {ns}});
    record.metrics["time"].value = static_cast<double>(ns);
    std::istringstream stream(comparison_table(std::vector{record}));
    std::string line;
    while (std::getline(stream, line) && !line.starts_with("impl")) {
    }
    std::getline(stream, line);
    return line.substr(line.find_first_not_of(' '), 2);
  };
  EXPECT_EQ(header_for(900), "ns");
  EXPECT_EQ(header_for(900'000), "us");
  EXPECT_EQ(header_for(9'000'000), "ms");
  EXPECT_EQ(header_for(90'000'000'000), "s ");
}

TEST(Table, RecordsWithoutDetailsFallBackOnMetrics) {
  std::vector<Record> records = test::comparison_records();
  for (Record& record : records) record.details = nullptr;
  EXPECT_TRUE(says(row_of(comparison_table(records), "plain"), "24.")) << comparison_table(records);
}

}  // namespace
}  // namespace commfuse

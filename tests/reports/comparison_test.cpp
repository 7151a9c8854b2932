// SPDX-License-Identifier: Apache-2.0
#include "reports/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "reports/comparison_report.h"

namespace commfuse {
namespace {

using ::testing::HasSubstr;

Record timed(const std::string& id, double ns) {
  Record record;
  record.id = id;
  record.impl = "plain";
  record.metrics["time"] = {ns, "ns"};
  record.environment = {{"hosts", {"node1"}}, {"cpu", "Fast 9000"}, {"libraries", {{"blas", "1"}}}};
  return record;
}

/// A launch for each time.
Launches launches_of(const std::string& id, const std::vector<double>& times) {
  Launches launches;
  launches.count = times.size();
  for (const double time : times) launches.rows[id].push_back(timed(id, time));
  return launches;
}

void merge(Launches& into, Launches from) {
  into.count = std::max(into.count, from.count);
  into.rows.merge(from.rows);
}

Comparison compare(const Launches& a, const Launches& b) { return compare_launches(a, b, {}); }

ComparedRow only_row(const Launches& a, const Launches& b) {
  const Comparison comparison = compare(a, b);
  EXPECT_EQ(comparison.rows.size(), 1U);
  return comparison.rows.at(0);
}

const std::vector<double> kBefore{100, 101, 102, 103, 104};

std::vector<double> scaled(double factor) {
  std::vector<double> times = kBefore;
  for (double& time : times) time *= factor;
  return times;
}

TEST(Comparison, SaysWhichWayARowChanged) {
  const Launches a = launches_of("row", kBefore);
  const ComparedRow slower = only_row(a, launches_of("row", scaled(1.2)));
  EXPECT_EQ(slower.verdict, Verdict::slower);
  EXPECT_NEAR(slower.ratio->ratio, 1.2, 1e-12);
  EXPECT_EQ(slower.probability_larger, 1);
  EXPECT_DOUBLE_EQ(slower.false_discovery_rate, 2.0 / 252);
  EXPECT_EQ(only_row(a, launches_of("row", scaled(0.8))).verdict, Verdict::faster);
  EXPECT_EQ(only_row(a, a).verdict, Verdict::same);
}

TEST(Comparison, AChangeBelowTheSmallestThatCountsIsNone) {
  const std::vector<double> before{100, 100.1, 100.2, 100.3, 100.4};
  std::vector<double> after = before;
  for (double& time : after) time += 1;
  const ComparedRow row = only_row(launches_of("row", before), launches_of("row", after));
  EXPECT_LT(row.false_discovery_rate, 0.01);
  EXPECT_EQ(row.verdict, Verdict::same);
}

TEST(Comparison, case_B7_needs_launches_and_not_iterations) {
  const ComparedRow row = only_row(launches_of("row", {100, 101, 102, 103}),
                                   launches_of("row", {200, 201, 202, 203, 204}));
  EXPECT_EQ(row.verdict, Verdict::unclear);
  EXPECT_EQ(row.reason, "4 and 5 launches, needs 5");
}

TEST(Comparison, NoiseIsUnclear) {
  const ComparedRow row = only_row(launches_of("row", {100, 140, 90, 130, 110}),
                                   launches_of("row", {120, 95, 150, 115, 135}));
  EXPECT_EQ(row.verdict, Verdict::unclear);
  EXPECT_EQ(row.reason, "launches differ too much to tell");
}

TEST(Comparison, SaysHowManyLaunchesManyRowsNeed) {
  Launches a = launches_of("row", kBefore), b = launches_of("row", scaled(2));
  for (const char* other : {"second", "third"}) {
    merge(a, launches_of(other, kBefore));
    merge(b, launches_of(other, kBefore));
  }
  const Comparison comparison = compare(a, b);
  EXPECT_EQ(comparison.rows[0].verdict, Verdict::unclear);
  EXPECT_EQ(comparison.rows[0].reason,
            "apart, but of 3 rows tested at once 5 launches a side prove none to have changed; 6 "
            "can");
  // 2 / C(12, 6) = 0.0022, times 3.
  for (Launches* side : {&a, &b}) {
    for (auto& [id, row] : side->rows) row.push_back(row.back());
  }
  EXPECT_EQ(compare(a, b).rows[0].verdict, Verdict::slower);
}

TEST(Comparison, WrongResultsBeatAnySpeed) {
  const Launches a = launches_of("row", kBefore);
  Launches b = launches_of("row", scaled(0.5));
  b.rows["row"][2].outcome = Outcome::wrong;
  b.rows["row"][2].reason = "17 of 100 values wrong";
  const ComparedRow row = only_row(a, b);
  EXPECT_EQ(row.verdict, Verdict::wrong);
  EXPECT_EQ(row.reason, "wrong: 17 of 100 values wrong");
}

TEST(Comparison, case_H2_lists_what_cannot_be_paired) {
  Launches a = launches_of("both", kBefore), b = a;
  merge(a, launches_of("gone", kBefore));
  merge(b, launches_of("new", kBefore));
  merge(a, launches_of("seconds", kBefore));
  merge(b, launches_of("seconds", kBefore));
  for (Record& record : b.rows["seconds"]) record.metrics["time"].unit = "s";
  merge(a, launches_of("simulated", kBefore));
  merge(b, launches_of("simulated", kBefore));
  for (Record& record : b.rows["simulated"]) record.clock = Clock::modelled;
  const Comparison comparison = compare(a, b);
  EXPECT_EQ(comparison.rows.size(), 1U);
  std::vector<std::pair<std::string, IncomparableRow::Why>> rows;
  for (const IncomparableRow& row : comparison.incomparable) rows.emplace_back(row.id, row.why);
  using Why = IncomparableRow::Why;
  EXPECT_THAT(rows, ::testing::ElementsAre(
                        std::pair("gone", Why::removed), std::pair("seconds", Why::unit),
                        std::pair("simulated", Why::clock), std::pair("new", Why::added)));
  EXPECT_EQ(comparison_summary(comparison),
            "1 row: 1 SAME; 1 added; 1 clock differs; 1 removed; 1 unit differs");
}

TEST(Comparison, case_B3_names_the_environment_that_differs) {
  const Launches a = launches_of("row", kBefore);
  Launches b = a;
  for (Record& record : b.rows["row"]) {
    record.environment["libraries"]["blas"] = "2";
    record.environment["hosts"] = {"node7"};
  }
  const Comparison comparison = compare(a, b);
  EXPECT_EQ(comparison.rows.size(), 1U) << "compared all the same";
  ASSERT_EQ(comparison.incomparable.size(), 1U);
  EXPECT_EQ(comparison.incomparable[0].why, IncomparableRow::Why::environment);
  EXPECT_EQ(comparison.incomparable[0].detail, "libraries.blas: 1, 2");
}

TEST(Comparison, case_A4_keeps_skipped_rows_out) {
  Launches a = launches_of("runs", kBefore), b = a;
  for (Launches* side : {&a, &b}) {
    merge(*side, launches_of("never", kBefore));
    for (Record& record : side->rows["never"]) {
      record.outcome = Outcome::skipped;
      record.metrics.clear();
    }
  }
  merge(a, launches_of("until now", kBefore));
  merge(b, launches_of("until now", kBefore));
  for (Record& record : b.rows["until now"]) {
    record.outcome = Outcome::skipped;
    record.reason = "needs 8 ranks";
  }
  const Comparison comparison = compare(a, b);
  EXPECT_EQ(comparison.skipped, 1U);
  EXPECT_EQ(comparison.rows.size(), 1U);
  ASSERT_EQ(comparison.incomparable.size(), 1U);
  EXPECT_EQ(comparison.incomparable[0].why, IncomparableRow::Why::removed);
  EXPECT_EQ(comparison.incomparable[0].detail, "needs 8 ranks");
}

/// Launches of 10 rows with a spread of 1 %.
Launches noisy_launches(std::mt19937_64& random, double factor) {
  std::normal_distribution<double> noise(1, 0.01);
  Launches launches;
  for (int row = 0; row < 10; ++row) {
    std::vector<double> times(5);
    for (double& time : times) time = 1e6 * (row + 1) * factor * noise(random);
    merge(launches, launches_of("row" + std::to_string(row), times));
  }
  return launches;
}

/// How many of 20 pairs have a row that is called slower or faster.
int alarms(double factor) {
  std::mt19937_64 random(3);
  int count = 0;
  for (int pair = 0; pair < 20; ++pair) {
    const Launches a = noisy_launches(random, 1);
    const Comparison comparison = compare(a, noisy_launches(random, factor));
    count += std::ranges::any_of(comparison.rows, [](const ComparedRow& row) {
      return row.verdict == Verdict::slower || row.verdict == Verdict::faster;
    });
  }
  return count;
}

TEST(Comparison, OfOneBuildRaisesHardlyAnAlarmAndOfASlowerOneNearlyAlways) {
  EXPECT_LE(alarms(1), 1);
  EXPECT_GE(alarms(1.05), 18);
}

TEST(ComparisonText, SaysWhatAllRowsShareOnceAndWhatMattersFirst) {
  const std::string shared = "/model:llama3-8b/ranks:2";
  Launches a = launches_of("tpsp/mlp/impl:plain" + shared, kBefore);
  merge(a, launches_of("tpsp/mlp/impl:commfuse:m=2" + shared, kBefore));
  Launches b = launches_of("tpsp/mlp/impl:plain" + shared, kBefore);
  merge(b, launches_of("tpsp/mlp/impl:commfuse:m=2" + shared, scaled(1.5)));
  ComparisonRules rules;
  rules.alpha = 0.05;
  const std::string text =
      comparison_text(compare_launches(a, b, rules), {"before", "after", 5, 5}, rules);
  EXPECT_THAT(text, HasSubstr("A before (5 launches), B after (5 launches)"));
  EXPECT_THAT(text, HasSubstr("tpsp/mlp/model:llama3-8b/ranks:2\n"));
  EXPECT_LT(text.find("SLOWER"), text.find("SAME"));
  EXPECT_THAT(text, HasSubstr("impl:commfuse:m=2\n"));
  EXPECT_THAT(text, HasSubstr("2 rows: 1 SLOWER, 1 SAME\n"));
}

TEST(ComparisonJson, HoldsEveryRow) {
  const Launches a = launches_of("row", kBefore);
  const nlohmann::ordered_json json =
      comparison_json(compare(a, launches_of("row", scaled(1.5))), {"a", "b", 5, 5}, {});
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["rows"][0]["verdict"], "SLOWER");
  EXPECT_EQ(json["rows"][0]["ratio"]["value"], 1.5);
  EXPECT_EQ(json["rules"]["alpha"], 0.01);
}

}  // namespace
}  // namespace commfuse

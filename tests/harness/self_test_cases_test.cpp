// SPDX-License-Identifier: Apache-2.0
// What --selftest selects, and what it says about it. Runs of it are in tests/cli.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "harness/exit_codes.h"
#include "harness/self_test.h"
#include "impls/implementation.h"
#include "suite/workload.h"

namespace commfuse {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

TEST(SelfTestCases, EveryImplementationInEveryForm) {
  const std::vector<std::string> specs = every_implementation_variant();
  for (const ImplementationEntry& entry : implementations()) {
    EXPECT_TRUE(std::ranges::any_of(specs, [&](const std::string& spec) {
      return spec.substr(0, spec.find(':')) == entry.name;
    })) << entry.name;
  }
  EXPECT_THAT(specs, Contains("plain:collective=copy_engine"));
  EXPECT_THAT(specs, Contains("sliced:n=3:axis=features"));
  EXPECT_THAT(specs, Contains("commfuse:order=ring:m=1:accumulate=epilogue"));
  EXPECT_THAT(specs, Contains("commfuse:order=direct:m=3:accumulate=once"));
  EXPECT_THAT(specs, Not(Contains("commfuse:order=direct:m=3:accumulate=epilogue")));
  EXPECT_EQ(specs.size(), std::set<std::string>(specs.begin(), specs.end()).size());
}

TEST(SelfTestCases, EveryWorkloadRunsOnAnyNumberOfRanks) {
  for (const std::int32_t ranks : {1, 2, 3, 5, 7, 8}) {
    const auto cases = self_test_cases(parse_options({"--selftest"}), ranks, true);
    EXPECT_EQ(cases.size(), 3 * kDTypes.size() * workloads().size());
    for (std::size_t i = 0; i < cases.size(); ++i) {
      EXPECT_EQ(cases[i].index, static_cast<std::int32_t>(i));
      for (const CaseRow& row : cases[i].rows) {
        const bool has_none =
            row.skip.starts_with("axis=features cuts what a reduce-scatter sends") &&
            row.skip.ends_with(" has none");
        const bool odd = cases[i].shape.model == "odd" && row.impl != "plain";
        const bool of_nccl = row.skip.ends_with(" belongs to transport nccl");
        EXPECT_TRUE(row.skip.empty() || has_none || odd || of_nccl) << row.id << ": " << row.skip;
      }
    }
  }
}

TEST(SelfTestCases, TakesBackendAndTransportFromTheOptions) {
  const Options options =
      parse_options({"--selftest", "--backend", "cuda", "--transport", "nccl", "--spare-sms", "4"});
  EXPECT_TRUE(options.check_only);
  const auto cases = self_test_cases(options, 2, true);
  EXPECT_EQ(cases.front().backend, "cuda");
  EXPECT_EQ(cases.front().transport, "nccl");
  EXPECT_THAT(cases.front().settings, HasSubstr("spared_sms=4"));
}

Record record_of(Outcome outcome, const std::string& reason) {
  Record record;
  record.id = "the/id";
  record.outcome = outcome;
  record.reason = reason;
  return record;
}

TEST(SelfTestReport, CountsAndNamesWhatIsWrong) {
  SelfTestReport report;
  EXPECT_EQ(report.exit_code(), kExitAllSkipped);  // nothing ran
  EXPECT_EQ(report.group("a", std::vector{record_of(Outcome::ok, ""), record_of(Outcome::ok, ""),
                                          record_of(Outcome::skipped, "no room")}),
            "a: 2 ok, 1 skipped\n");
  EXPECT_EQ(report.exit_code(), kExitOk);
  EXPECT_EQ(report.summary(), "selftest: 2 cases ok, 1 skipped (1: no room), 0 wrong\n");
  EXPECT_EQ(report.group("b", std::vector{record_of(Outcome::wrong, "1 of 4 values wrong"),
                                          record_of(Outcome::skipped, "too many"),
                                          record_of(Outcome::skipped, "too many")}),
            "b: 0 ok, 2 skipped, 1 WRONG\n  WRONG the/id: 1 of 4 values wrong\n");
  EXPECT_EQ(report.exit_code(), kExitWrong);
  EXPECT_EQ(report.summary(),
            "selftest: 2 cases ok, 3 skipped (2: too many; 1: no room), 1 wrong\n");
}

TEST(SelfTestReport, AFailedPartIsWrongAndAMissingOneIsNot) {
  using State = SelfTestPart::State;
  SelfTestReport report;
  report.group("a", std::vector{record_of(Outcome::ok, "")});
  EXPECT_EQ(report.part({"nccl", "2.28.9", State::ok}), "nccl: ok, 2.28.9\n");
  EXPECT_EQ(report.part({"copies", "no profiler", State::missing}),
            "copies: missing, no profiler\n");
  EXPECT_EQ(report.part({"clocks", "not locked", State::warning}), "clocks: warning, not locked\n");
  EXPECT_EQ(report.exit_code(), kExitOk);
  EXPECT_EQ(report.part({"nccl", "element 3 is 0", State::failed}),
            "nccl: FAILED, element 3 is 0\n");
  EXPECT_EQ(report.exit_code(), kExitWrong);
}

}  // namespace
}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/tuning.h"

#include <gtest/gtest.h>

#include <set>

#include "impls/implementation.h"
#include "tests/impls/small_workloads.h"

namespace commfuse {
namespace {

Record timed(std::string impl, double time_ns, double bound_ns = 100e3) {
  Record record;
  record.impl = std::move(impl);
  record.clock = Clock::modelled;
  record.metrics["time"] = {time_ns, "ns"};
  record.metrics["bound"] = {bound_ns, "ns"};
  record.metrics["distance"] = {time_ns / bound_ns, "ratio"};
  record.metrics["exposed_share"] = {time_ns / bound_ns - 1, "ratio"};
  return record;
}

Record skipped(std::string impl) {
  Record record;
  record.impl = std::move(impl);
  record.outcome = Outcome::skipped;
  return record;
}

TEST(Tuning, TriesEverySettingThatCutsTheWorkloadOnce) {
  for (const WorkloadEntry& entry : workloads()) {
    const Workload workload = small_workload(selector_of(entry), 4, 8);
    const std::vector<std::string> specs = tuning_specs(workload);
    const std::set<std::string> distinct(specs.begin(), specs.end());
    EXPECT_EQ(distinct.size(), specs.size()) << entry.name;
    for (const std::string& spec : specs) {
      const Implementation made = make_implementation(spec, workload);
      EXPECT_EQ(made.name, spec);
      EXPECT_EQ(unsupported(made, workload), "") << entry.name << ", " << spec;
    }
    EXPECT_TRUE(distinct.contains("plain"));
  }
}

TEST(Tuning, KnowsBothOrdersAndAllWaysToAccumulate) {
  const Workload workload = small_workload("tpsp/gemm_rs", 4, 8);
  const std::vector<std::string> specs = tuning_specs(workload);
  const std::set<std::string> distinct(specs.begin(), specs.end());
  for (const char* spec :
       {"sliced:n=8:axis=tokens", "sliced:n=2:axis=features",
        "commfuse:order=ring:m=1:accumulate=add", "commfuse:order=ring:m=8:accumulate=epilogue",
        "commfuse:order=direct:m=4:accumulate=once"}) {
    EXPECT_TRUE(distinct.contains(spec)) << spec;
  }
  EXPECT_FALSE(distinct.contains("sliced:n=16:axis=tokens"));  // 8 rows of a slice
  EXPECT_FALSE(distinct.contains("commfuse:order=direct:m=1:accumulate=epilogue"));
  EXPECT_EQ(
      tuning_specs(workload, 1),
      (std::vector<std::string>{"plain", "bulk", "commfuse:order=ring:m=1:accumulate=epilogue",
                                "commfuse:order=ring:m=1:accumulate=add",
                                "commfuse:order=direct:m=1:accumulate=add",
                                "commfuse:order=direct:m=1:accumulate=once"}));
}

TEST(Tuning, RanksTheBoundsFirstThenByTimeThenWhatHasNone) {
  std::vector<Record> records{skipped("sliced:n=3"), timed("plain", 140e3),
                              timed("compute_only", 100e3), timed("commfuse", 110e3),
                              timed("bulk", 110e3)};
  rank_by_time(records);
  std::vector<std::string> order;
  for (const Record& record : records) order.push_back(record.impl);
  EXPECT_EQ(order,
            (std::vector<std::string>{"compute_only", "commfuse", "bulk", "plain", "sliced:n=3"}));
}

TEST(Tuning, NamesTheFastestWithItsGainAndMargin) {
  const std::vector<Record> records{timed("comm_only", 10e3), timed("plain", 150e3),
                                    timed("commfuse:m=2", 101e3)};
  EXPECT_EQ(tuning_verdict(records),
            "fastest: commfuse:m=2, 101.00 us, 1.49 x plain, 1.0 % above the bound of 100.00 us.");
}

TEST(Tuning, SaysWhenOverlapDoesNotPay) {
  const std::vector<Record> records{timed("plain", 100.5e3), timed("commfuse:m=2", 100e3)};
  EXPECT_EQ(
      tuning_verdict(records),
      "overlap does not pay: plain takes 100.50 us, 0.5 % above the bound of 100.00 us, and the "
      "fastest schedule, commfuse:m=2, is 0.5 % faster; communication that nothing hides is 0.5 % "
      "of the compute.");
  EXPECT_EQ(tuning_verdict(std::vector<Record>{timed("plain", 100e3)}).substr(0, 21),
            "overlap does not pay:");
}

TEST(Tuning, SaysNothingWithoutATime) {
  EXPECT_EQ(tuning_verdict(std::vector<Record>{skipped("plain"), timed("compute_only", 1e3)}), "");
  EXPECT_EQ(tuning_verdict(std::vector<Record>{timed("bulk", 2e6, 1e6)}),
            "fastest: bulk, 2.000 ms, 100.0 % above the bound of 1.000 ms.");
}

}  // namespace
}  // namespace commfuse

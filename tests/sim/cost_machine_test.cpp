// SPDX-License-Identifier: Apache-2.0
// Machines whose op times are measured ones, and what becomes of cases that they do not cover.
#include "harness/sim/cost_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "harness/sim/cost_file.h"
#include "harness/sim/sim_options.h"
#include "harness/sim/simulated_case.h"
#include "harness/sim/unknown_ops.h"
#include "suite/error.h"

namespace commfuse {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kIdeal = "ideal:flops=700T,link=400GB/s,latency=3us";

/// Of tpsp/gemm_rs at hidden 64, ffn 128 and 64 tokens, 2 ranks: whole, in four tiles, and those
/// that add to what arrived.
OpCosts small_costs() {
  return {{{"gemm", "fp32 NT", {64, 64, 64}}, {8000, 10, 0.01}},
          {{"gemm", "fp32 NT", {32, 64, 64}}, {4200, 10, 0.01}},
          {{"gemm", "fp32 NT", {16, 64, 64}}, {2500, 10, 0.01}},
          {{"gemm", "fp32 NT + C", {32, 64, 64}}, {4500, 10, 0.01}},
          {{"gemm", "fp32 NT + C", {16, 64, 64}}, {2700, 10, 0.01}}};
}

class CostMachine : public testing::Test {
 protected:
  CostMachine() {
    std::filesystem::create_directory(folder_);
    rewrite(small_costs());
  }
  ~CostMachine() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path() const { return folder_ / "my costs.json"; }
  void rewrite(OpCosts costs) const {
    write_costs(path(), {{{"host", "node1"}, {"cpu", "Fast 9000"}},
                         "thread CPU time",
                         "2026-01-02T03:04:05Z",
                         "abc",
                         std::move(costs)});
  }

  std::vector<Record> records(const char* tokens, const char* impls, const char* link) {
    const SimOptions options =
        parse_sim_options({"--workload", "tpsp/gemm_rs", "--shape", "hidden=64,ffn=128,heads=8",
                           "--tokens", tokens, "--impl", impls, "--link", link, "--ranks", "2"});
    const SimulatedMachine machine{machine_with_costs("", path()), Protocol::put, 1, 0};
    CaseSetting setting;
    setting.backend = "sim";
    setting.transport = "put";
    setting.machine = machine_in_ids(machine.model.name);
    setting.links = options.links;
    std::vector<CaseGroup> groups = expand_cases(options, selected_meshes(options, 2), setting);
    lacking_ = skip_unknown_ops(groups, *machine.model.compute);
    std::vector<Record> all;
    for (const CaseGroup& group : groups) {
      for (Record& record : simulate_group(group, machine)) all.push_back(std::move(record));
    }
    return all;
  }

  std::string lacking_;  // of the cases that were run last

 private:
  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("cost_machine." + std::to_string(getpid()));
};

TEST_F(CostMachine, HasTheNetworkOfAnotherAndTimesOfItsOwn) {
  const MachineModel machine = machine_with_costs(kIdeal, path());
  EXPECT_EQ(machine.name, std::string(kIdeal) + ",costs:my-costs");
  EXPECT_EQ(machine.network.inner.bytes_per_second, 400e9);
  EXPECT_DOUBLE_EQ(machine.peak_flops_per_second.front(), 2.0 * 64 * 64 * 64 / 8000e-9);
  EXPECT_EQ(machine.peak_name, "best recorded gemm");
  EXPECT_THAT(machine.sources.back(),
              HasSubstr("ops: my costs.json of thread CPU time, recorded on node1 (Fast 9000) at "
                        "2026-01-02T03:04:05Z by commit abc"));
  EXPECT_EQ(machine_with_costs("", path()).name, "costs:my-costs");
  EXPECT_THROW(machine_with_costs("h900", path()), UsageError);
  EXPECT_THROW(machine_with_costs(kIdeal, path() + ".gone"), UsageError);
}

TEST_F(CostMachine, StepsOfCollectivesAreFittedToThoseOfTheFile) {
  OpCosts costs = small_costs();
  // Two ranks, 20 us a step, 1 GB/s; only sizes that differ tell the two apart.
  costs[{"all_gather", "mpi", {2, 1000, 0}}] = {21'000, 10, 0};
  costs[{"all_gather", "mpi", {2, 80'000, 0}}] = {100'000, 10, 0};
  costs[{"reduce_scatter", "mpi", {2, 1000, 0}}] = {21'000, 10, 0};
  rewrite(costs);
  const MachineModel machine = machine_with_costs(kIdeal, path());
  const auto& latency = machine.network.step_latency_seconds;
  ASSERT_TRUE(latency[std::size_t(CollectiveKind::all_gather)].has_value());
  EXPECT_NEAR(*latency[std::size_t(CollectiveKind::all_gather)], 20e-6, 1e-12);
  EXPECT_FALSE(latency[std::size_t(CollectiveKind::reduce_scatter)].has_value());
  ASSERT_EQ(machine.step_sources.size(), 1U);
  EXPECT_EQ(machine.step_sources[0],
            "latency of collectives: all_gather fitted to 2 measurements: 20 us a step, 1 GB/s, at "
            "most 0 % off");
  costs[{"all_gather", "nccl", {2, 1000, 0}}] = {21'000, 10, 0};
  rewrite(costs);
  try {
    (void)machine_with_costs(kIdeal, path());
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("my costs.json: there are times of all_gather over mpi and "
                                        "over nccl: record them in a file each"));
  }
}

TEST_F(CostMachine, AStatedLinkIsTakenAsItStandsAndNamesNoFit) {
  OpCosts costs = small_costs();
  costs[{"reduce_scatter", "mpi", {2, 1000, 0}}] = {21'000, 10, 0};
  costs[{"reduce_scatter", "mpi", {2, 80'000, 0}}] = {100'000, 10, 0};
  rewrite(costs);
  const double block = 32 * 64 * 4;
  const auto of = records("64", "plain", "1GB/s,5us");
  EXPECT_EQ(of[1].metrics.at("time").value, 5000 + block);
  EXPECT_THAT(of[1].details["machine"]["sources"].dump(), Not(HasSubstr("fitted")));
}

TEST_F(CostMachine, TimesAreThoseOfTheFile) {
  const auto of = records("64", "plain", "1GB/s,5us");
  ASSERT_EQ(of.size(), 3U);
  for (const Record& record : of) {
    EXPECT_EQ(record.outcome, Outcome::ok) << record.reason;
    EXPECT_THAT(record.id, HasSubstr("/machine:costs:my-costs/"));
  }
  EXPECT_EQ(of[0].metrics.at("time").value, 8000);
  EXPECT_EQ(lacking_, "");
  const double block = 32 * 64 * 4;
  EXPECT_EQ(of[2].metrics.at("time").value, 8000 + 5000 + block);
  EXPECT_EQ(of[0].details["peak"]["name"], "best recorded gemm");
  EXPECT_DOUBLE_EQ(of[0].metrics.at("flops_utilisation").value, 1);
}

TEST_F(CostMachine, BetweenMeasuredSizesTimesAreInterpolated) {
  EXPECT_EQ(records("48", "plain", "1GB/s,5us")[0].metrics.at("time").value, 6100);
}

TEST_F(CostMachine, ACaseWithOpsThatWereNotMeasuredIsSkippedAndTheyAreNamed) {
  const auto of = records("64", "plain,sliced:n=4", "1GB/s,5us");
  ASSERT_EQ(of.size(), 4U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(of[i].outcome, Outcome::ok) << of[i].reason;
  EXPECT_EQ(of[3].outcome, Outcome::skipped);
  EXPECT_THAT(of[3].reason, StartsWith("my costs.json lacks "));
  EXPECT_THAT(of[3].reason, HasSubstr("strips"));
  const auto larger = records("128", "plain", "1GB/s,5us");
  EXPECT_EQ(lacking_, larger[2].reason);
  EXPECT_EQ(larger[2].reason, "my costs.json lacks 1 of 1 ops: gemm 128x64x64 fp32 NT");
  EXPECT_EQ(larger[1].outcome, Outcome::ok) << "communication alone has no ops";
  (void)records("128,256", "plain", "1GB/s,5us");
  EXPECT_EQ(lacking_,
            "my costs.json lacks 2 of 2 ops: gemm 128x64x64 fp32 NT; gemm 256x64x64 fp32 NT");
}

TEST_F(CostMachine, ALinkIsNotCalibratedWithoutComputeOnly) {
  const std::string lacks = "my costs.json lacks 1 of 1 ops: gemm 128x64x64 fp32 NT";
  const auto of = records("128", "plain", "auto:0.5");
  ASSERT_EQ(of.size(), 3U);
  EXPECT_EQ(of[0].reason, lacks);
  EXPECT_EQ(of[1].reason, "the link cannot be calibrated: " + lacks);
  EXPECT_EQ(of[2].reason, lacks);
  for (const Record& record : of) EXPECT_EQ(record.outcome, Outcome::skipped);
  EXPECT_EQ(records("64", "plain", "auto:0.5")[1].metrics.at("time").value, 4000);
}

}  // namespace
}  // namespace commfuse

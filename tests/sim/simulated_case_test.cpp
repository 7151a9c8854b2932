// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/simulated_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/sim/sim_options.h"
#include "harness/sim/simulated_run.h"
#include "tests/sim/simulated.h"

namespace commfuse {
namespace {

using ::testing::HasSubstr;

struct Asked {
  std::vector<std::string> arguments;
  std::int32_t places = 0;
  Protocol protocol = Protocol::put;
  std::size_t threads = 1;
  std::int64_t available_bytes = 0;
};

std::vector<CaseGroup> groups_of(const Asked& asked) {
  std::vector<std::string> arguments{"--model", "llama3-70b", "--tokens", "8K", "--dtype", "bf16"};
  arguments.insert(arguments.end(), asked.arguments.begin(), asked.arguments.end());
  const SimOptions options = parse_sim_options(arguments);
  CaseSetting setting;
  setting.backend = "sim";
  setting.transport = name_of(asked.protocol);
  setting.machine = machine_in_ids(fast_machine().name);
  setting.places = asked.places;
  if (!options.links.empty()) setting.links = options.links;
  return expand_cases(options, selected_meshes(options, 8), setting);
}

std::vector<Record> records_of(const Asked& asked) {
  const SimulatedMachine machine{fast_machine(), asked.protocol, asked.threads,
                                 asked.available_bytes};
  std::vector<Record> records;
  for (const CaseGroup& group : groups_of(asked)) {
    for (Record& record : simulate_group(group, machine)) records.push_back(std::move(record));
  }
  return records;
}

double value(const Record& record, const char* metric) { return record.metrics.at(metric).value; }

TEST(SimulatedCase, ARecordSaysWhatWasModelled) {
  const auto records = records_of({{"--impl", "plain,commfuse:order=direct:m=1"}});
  ASSERT_EQ(records.size(), 4U);
  for (const Record& record : records) {
    EXPECT_EQ(record.clock, Clock::modelled);
    EXPECT_EQ(record.outcome, Outcome::ok);
    EXPECT_EQ(record.backend, "sim");
    EXPECT_EQ(record.transport, "put");
    EXPECT_EQ(record.ranks, 8);
    EXPECT_THAT(record.id, HasSubstr("/backend:sim/transport:put/machine:ideal:flops=700T,"
                                     "link=400GBps,latency=3us/mode:isolated"));
    EXPECT_EQ(record.details["machine"]["name"], fast_machine().name);
    EXPECT_FALSE(record.details["machine"]["sources"].empty());
    EXPECT_GT(record.details["simulation"]["events"], 0);
    EXPECT_EQ(record_from_json(to_json(record)).id, record.id);
  }
  EXPECT_EQ(records[2].impl, "plain");
  EXPECT_EQ(records[2].details["peak"]["name"], "modelled peak");
  EXPECT_NEAR(value(records[0], "flops_utilisation"), 1, 1e-6);
}

// compute_only takes 2MNK / rate; the collective P - 1 steps of latency and block / bandwidth; of
// commfuse in direct order nothing is exposed where compute of a slice covers a block.
TEST(SimulatedCase, TimesAreTheClosedForms) {
  for (const std::int32_t ranks : {2, 8}) {
    const auto records = records_of(
        {{"--ranks", std::to_string(ranks), "--impl", "plain,commfuse:order=direct:m=1"}});
    const double flops = 2.0 * 8192 * (28672.0 / ranks) * 8192;
    const double compute = flops / 700e12 * 1e9;
    const double block = 8192.0 / ranks * 8192 * 2;
    const double collective = (ranks - 1) * (3e-6 + block / 400e9) * 1e9;
    EXPECT_NEAR(value(records[0], "time"), compute, 1);
    EXPECT_NEAR(value(records[1], "time"), collective, 1);
    EXPECT_NEAR(value(records[2], "time"), compute + collective, 1);
    EXPECT_NEAR(value(records[3], "time"), compute, 1);
    for (const std::size_t schedule : {2, 3}) {
      EXPECT_EQ(value(records[schedule], "contention"), 0);
      EXPECT_NEAR(value(records[schedule], "time"),
                  value(records[schedule], "t_whole") + value(records[schedule], "decomposition") +
                      value(records[schedule], "exposed") + value(records[schedule], "last_rank"),
                  1e-9);
    }
  }
}

TEST(SimulatedCase, ThreadsChangeNothing) {
  const Asked asked{{"--ranks", "16", "--workload", "tpsp/mlp,ulysses/attention"}};
  Asked many = asked;
  many.threads = 3;
  const auto one = records_of(asked);
  const auto three = records_of(many);
  ASSERT_EQ(one.size(), three.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].samples.per_rank, three[i].samples.per_rank) << one[i].id;
    EXPECT_EQ(to_json(one[i])["metrics"], to_json(three[i])["metrics"]) << one[i].id;
  }
}

TEST(SimulatedCase, GroupsOfAMeshOnOneNodeDoNotDisturbEachOther) {
  const auto alone = records_of({{"--ranks", "8", "--workload", "tpsp/mlp"}});
  for (const char* axes : {"tp=8,dp=3", "dp=3,tp=8"}) {
    const auto mesh = records_of({{"--mesh", axes, "--on", "tp", "--workload", "tpsp/mlp"}});
    ASSERT_EQ(mesh.size(), alone.size());
    for (std::size_t i = 0; i < alone.size(); ++i) {
      EXPECT_EQ(value(mesh[i], "time"), value(alone[i], "time"));
      EXPECT_EQ(mesh[i].samples.per_rank.size(), 24U);
    }
    EXPECT_EQ(mesh.front().mesh, std::string(axes) + " on tp");
  }
}

TEST(SimulatedCase, GroupsOfAMeshShareTheNicsOfTheirNodes) {
  MachineModel two_nodes = fast_machine();
  two_nodes.network.ranks_per_node = 4;
  two_nodes.network.outer = {50e9, 10e-6};
  const SimulatedMachine machine{two_nodes, Protocol::put, 1, 0};
  const auto time_of = [&](const char* on) {
    const auto groups = groups_of({{"--mesh", "tp=4,dp=2", "--on", on, "--impl", "plain"}});
    return value(simulate_group(groups.front(), machine)[1], "time");  // comm_only
  };
  EXPECT_GT(time_of("dp"), 2 * time_of("tp"));  // tp stays within nodes
}

TEST(SimulatedCase, LinkAutoMakesCollectivesTakeItsShareOfCompute) {
  for (const char* workload : {"tpsp/gemm_rs", "tpsp/layer"}) {
    const auto records =
        records_of({{"--link", "auto:0.4", "--impl", "plain", "--workload", workload}});
    EXPECT_EQ(records[1].impl, "comm_only");
    EXPECT_NEAR(value(records[1], "r_effective"), 0.4, 1e-4) << workload;
    EXPECT_EQ(records[1].link, "auto:0.4");
  }
}

TEST(SimulatedCase, AStatedLinkReplacesTheNetwork) {
  const auto records = records_of({{"--link", "100GB/s,1us", "--impl", "plain", "--ranks", "4"}});
  EXPECT_NEAR(value(records[1], "time"), 3 * (1e-6 + 2048.0 * 8192 * 2 / 100e9) * 1e9, 1);
  EXPECT_EQ(records[1].details["machine"]["link"]["bytes_per_second"], 100e9);
}

TEST(SimulatedCase, ProtocolsAreToldApart) {
  const auto put = records_of({{"--impl", "commfuse:order=ring:m=2"}});
  const auto joint = records_of({{"--impl", "commfuse:order=ring:m=2"}, 0, Protocol::joint});
  EXPECT_NE(put.back().id, joint.back().id);
  EXPECT_EQ(joint.back().transport, "joint");
  EXPECT_GE(value(joint.back(), "time"), value(put.back(), "time"));
}

TEST(SimulatedCase, WhatTheMachineLacksIsSkippedWithTheReason) {
  const auto records = records_of({{"--ranks", "8,16", "--impl", "plain"}, 8});
  ASSERT_EQ(records.size(), 6U);
  EXPECT_EQ(records[2].outcome, Outcome::ok);
  EXPECT_EQ(records[5].outcome, Outcome::skipped);
  EXPECT_THAT(records[5].reason, HasSubstr("needs 16 ranks, and ideal:"));
  EXPECT_THAT(records[5].reason, HasSubstr(" has 8"));
  const auto uneven = records_of({{"--ranks", "3", "--impl", "plain"}});
  EXPECT_EQ(uneven[2].outcome, Outcome::skipped);
  EXPECT_THAT(uneven[2].reason, HasSubstr("divisible"));
}

TEST(SimulatedCase, WhatDoesNotFitIntoMemoryIsSkipped) {
  const Asked asked{
      {"--ranks", "64", "--impl", "plain,commfuse:order=direct:m=1"}, 0, Protocol::put, 1, 100'000};
  const auto records = records_of(asked);
  EXPECT_EQ(records[2].outcome, Outcome::ok) << records[2].reason;
  EXPECT_EQ(records[3].outcome, Outcome::skipped);
  EXPECT_THAT(records[3].reason, HasSubstr("of memory, 0.1 MiB are available"));
  EXPECT_GT(needed_bytes(groups_of(asked).front()), 100'000);
}

TEST(SimulatedCase, OneRankHasNothingToSay) {
  const auto records = records_of({{"--ranks", "1", "--link", "auto:0.4"}});
  for (const Record& record : records) EXPECT_EQ(record.outcome, Outcome::ok) << record.reason;
}

TEST(SimulatedRun, EveryRankOfASymmetricRingTakesTheSameTime) {
  const Workload workload = large_workload("tpsp/gemm_rs", 64);
  const MachineModel machine = fast_machine();
  const Mesh mesh = single_group(64);
  const Implementation ring = make_implementation("commfuse:order=ring:m=2", workload);
  const SimulatedRun run = simulate({workload, mesh, machine, Protocol::put, 2}, ring);
  ASSERT_EQ(run.run.size(), 64U);
  for (const IterationSummary& rank : run.run) EXPECT_EQ(rank.window, run.longest_window());
  EXPECT_EQ(run.facts.bytes_sent, run.facts.minimum_bytes);
}

}  // namespace
}  // namespace commfuse

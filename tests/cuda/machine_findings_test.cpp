// SPDX-License-Identifier: Apache-2.0
// How the machine is put together: each finding fires, and none does where nothing is wrong.
#include "harness/cuda/machine_findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/world/thread_world.h"
#include "tests/cuda/sample_facts.h"

namespace commfuse::fake {
namespace {

using State = SelfTestPart::State;
using testing::HasSubstr;
using testing::IsEmpty;

void expect_warning(const Finding& finding, const char* text, bool against_times = false) {
  EXPECT_EQ(finding.part.state, State::warning) << finding.part.name;
  EXPECT_THAT(finding.part.text, HasSubstr(text));
  EXPECT_EQ(!finding.against_times.empty(), against_times) << finding.part.text;
}

TEST(MachineFindings, AHealthyMachineHasNone) {
  const auto ranks = healthy_ranks();
  const auto findings = machine_findings(ranks);
  EXPECT_EQ(findings.size(), 12U);
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.part.state, State::ok) << finding.part.name << ": " << finding.part.text;
    EXPECT_EQ(finding.against_times, "");
    EXPECT_EQ(finding.part.text.find('\n'), std::string::npos);
  }
  EXPECT_THAT(lines_against_times(findings), IsEmpty());
  const SelfTestPart trust = trust_part(findings);
  EXPECT_EQ(trust.state, State::ok);
  EXPECT_EQ(trust.text, "checked results, and times: nothing was found that disturbs them");
}

TEST(MachineFindings, DevicesAreDescribed) {
  auto ranks = healthy_ranks();
  EXPECT_EQ(devices_finding(ranks).part.text,
            "2 x GPU, 80.0 GiB, ECC on, persistence on; 2 of them used by 2 ranks");
  for (RankFacts& rank : ranks) rank.devices[1].ecc = false;
  EXPECT_EQ(devices_finding(ranks).part.text,
            "1 x GPU, 80.0 GiB, ECC on, persistence on (0000:01:00.0 on node0); 1 x GPU, 80.0 GiB, "
            "ECC off, persistence on (0000:02:00.0 on node0); 2 of them used by 2 ranks");
  for (RankFacts& rank : ranks) rank.devices[1].persistence = false;
  expect_warning(devices_finding(ranks), "nvidia-smi -pm 1");
}

TEST(MachineFindings, RanksThatSeeTheirOwnDeviceOnly) {
  auto ranks = healthy_ranks();
  ranks[0].devices.pop_back();
  ranks[1].devices.erase(ranks[1].devices.begin());
  const Finding finding = visibility_finding(ranks);
  expect_warning(finding, "--gpu-bind=none");
  EXPECT_THAT(finding.part.text,
              HasSubstr("rank 0 sees 0000:01:00.0 and rank 1 sees 0000:02:00.0 of node0"));
  EXPECT_EQ(peer_access_finding(ranks).part.state, State::missing);
  ranks[1].host = "node1";  // nothing is wrong where they are on two nodes
  EXPECT_EQ(visibility_finding(ranks).part.state, State::ok);
}

TEST(MachineFindings, PairsWithoutPeerAccess) {
  auto ranks = healthy_ranks();
  for (RankFacts& rank : ranks) rank.apart = {{"0000:01:00.0", "0000:02:00.0"}};
  expect_warning(peer_access_finding(ranks), "none from 0000:01:00.0 to 0000:02:00.0 on node0: ");
}

TEST(MachineFindings, LinksThatAreDown) {
  auto ranks = healthy_ranks();
  EXPECT_EQ(links_finding(ranks).part.text, "2 x 18 links up, 0 down");
  for (RankFacts& rank : ranks) {
    rank.devices[1].links_active = 16;
    rank.devices[1].links_inactive = 2;
  }
  expect_warning(links_finding(ranks), "1 x 16 links up, 2 down (0000:02:00.0 on node0)", true);
  for (RankFacts& rank : ranks) {
    rank.devices[0].links_active = 16;
    rank.devices[0].links_inactive = 2;
  }
  EXPECT_EQ(links_finding(ranks).part.state, State::ok);  // none has more
  for (RankFacts& rank : ranks) rank.devices[0].links_active = {};
  EXPECT_EQ(links_finding(ranks).part.state, State::missing);
}

TEST(MachineFindings, AFabricThatIsNotReady) {
  auto ranks = healthy_ranks();
  for (RankFacts& rank : ranks) rank.devices[1].fabric_state = nvml::kInProgress;
  expect_warning(links_finding(ranks), "is nvidia-fabricmanager running?", true);
}

TEST(MachineFindings, MulticastIsKnownOrNot) {
  auto ranks = healthy_ranks();
  EXPECT_EQ(multicast_finding(ranks).part.text, "2 x supported");
  for (RankFacts& rank : ranks) rank.devices[1].multicast = false;
  EXPECT_EQ(multicast_finding(ranks).part.text,
            "1 x supported (0000:01:00.0 on node0); 1 x not supported (0000:02:00.0 on node0)");
  for (RankFacts& rank : ranks) rank.devices[1].multicast = {};
  EXPECT_EQ(multicast_finding(ranks).part.state, State::missing);
}

TEST(MachineFindings, RanksFarFromTheirDevice) {
  auto ranks = healthy_ranks();
  EXPECT_EQ(affinity_finding(ranks).part.text,
            "2 of 2 ranks may run beside their device; 2 of 2 ranks have a network card on their "
            "device's node");
  ranks[1].processors = {0, 1};
  expect_warning(affinity_finding(ranks), "rank 1 may run on no processor of memory node 1");
  ranks[1].processors = {2};
  expect_warning(affinity_finding(ranks), "rank 1 may run on one processor only");
  ranks[1].processors = {2, 3};
  ranks[0].network_cards = ranks[1].network_cards = {{"mlx5_0", 0}};
  EXPECT_THAT(affinity_finding(ranks).part.text, HasSubstr("1 of 2 ranks have a network card"));
  for (RankFacts& rank : ranks) rank.near_processors.clear();
  EXPECT_EQ(affinity_finding(ranks).part.state, State::missing);
}

TEST(MachineFindings, TwoVersionsOfNccl) {
  auto ranks = healthy_ranks();
  ranks[1].nccl = "2.20.5";
  expect_warning(nccl_finding(ranks), "ranks have 2.20.5, 2.28.9");
}

TEST(MachineFindings, RightsToProfile) {
  auto ranks = healthy_ranks();
  EXPECT_EQ(profiling_finding(ranks).part.text,
            "records on every rank; the driver lets this user profile");
  ranks[1].traces = false;
  expect_warning(profiling_finding(ranks), "does not record on ranks 1");
  for (RankFacts& rank : ranks) rank.profiling_for_administrators = true;
  expect_warning(profiling_finding(ranks), "NVreg_RestrictProfilingToAdminUsers=0");
  for (RankFacts& rank : ranks) rank.administrator = true;
  EXPECT_THAT(profiling_finding(ranks).part.text, HasSubstr("lets this user profile"));
  for (RankFacts& rank : ranks) rank.profiled = false;
  EXPECT_EQ(profiling_finding(ranks).part.state, State::missing);
}

TEST(MachineFindings, WhatNvmlDoesNotShowIsUnknownWithTheReason) {
  auto ranks = healthy_ranks();
  for (RankFacts& rank : ranks) {
    for (DeviceFacts& device : rank.devices) {
      DeviceFacts hidden;
      hidden.pci = device.pci;
      hidden.name = device.name;
      hidden.not_shown = "no libnvidia-ml.so.1";
      device = hidden;
    }
  }
  EXPECT_EQ(links_finding(ranks).part.text, "unknown: no libnvidia-ml.so.1");
  const auto findings = machine_findings(ranks);
  const auto lines = lines_against_times(findings);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0], "clocks, throttling, other processes: unknown: no libnvidia-ml.so.1");
  EXPECT_THAT(trust_part(findings).text,
              HasSubstr("clocks are not known, throttling is not known, other processes are not "
                        "known"));
}

TEST(MachineFindings, TrustNamesWhatElseIsToBeMended) {
  auto ranks = healthy_ranks();
  ranks[1].nccl = "2.20.5";
  const auto trust = trust_part(machine_findings(ranks));
  EXPECT_EQ(trust.state, State::warning);
  EXPECT_THAT(trust.text, HasSubstr("; to be mended: nccl version"));
}

TEST(MachineFacts, ArriveOnRankZeroAsTheyAre) {
  run_thread_ranks(2, [](World& world) {
    auto ranks = healthy_ranks();
    ranks[1].devices[1].clock_mhz = {};
    ranks[1].apart = {{"a", "b"}};
    const auto all = gather_facts(world, ranks[static_cast<std::size_t>(world.rank())]);
    ASSERT_EQ(all.size(), world.rank() == 0 ? 2U : 0U);
    if (all.empty()) return;
    EXPECT_EQ(all[1].device, "0000:02:00.0");
    EXPECT_FALSE(all[1].devices[1].clock_mhz.has_value());
    EXPECT_EQ(all[1].devices[0].clock_mhz, 1500);
    EXPECT_EQ(all[1].devices[1].processes, ranks[1].devices[1].processes);
    EXPECT_EQ(all[1].apart, ranks[1].apart);
    EXPECT_EQ(all[1].network_cards, ranks[1].network_cards);
    EXPECT_EQ(all[1].profiling_for_administrators, false);
  });
}

}  // namespace
}  // namespace commfuse::fake

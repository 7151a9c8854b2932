// SPDX-License-Identifier: Apache-2.0
// What disturbs times: each finding fires, and speaks of the devices of this launch only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/cuda/machine_findings.h"
#include "tests/cuda/sample_facts.h"

namespace commfuse::fake {
namespace {

using State = SelfTestPart::State;
using testing::HasSubstr;

/// As all ranks see the second device.
template <class Change>
std::vector<RankFacts> with_second_device(Change change) {
  auto ranks = healthy_ranks();
  for (RankFacts& rank : ranks) change(rank.devices[1]);
  return ranks;
}

std::uint32_t limit(std::string_view name) {
  for (std::size_t i = 0; i < kClockLimits.size(); ++i) {
    if (kClockLimits[i] == name) return 1U << i;
  }
  return 0;
}

TEST(UsageFindings, ClocksWithoutALock) {
  EXPECT_EQ(clocks_finding(healthy_ranks()).part.text,
            "2 x SM clock now 1500 MHz, set 1500 MHz, at most 1980 MHz; locked");
  const auto ranks = with_second_device([](DeviceFacts& device) {
    device.application_clock_mhz = device.default_application_clock_mhz;
    device.limits = 0;
  });
  const Finding finding = clocks_finding(ranks);
  EXPECT_EQ(finding.part.state, State::warning);
  EXPECT_THAT(finding.part.text, HasSubstr("no lock is seen on 1 of 2: nvidia-smi -lgc MHZ"));
  EXPECT_EQ(finding.against_times, "clocks are not locked");
}

TEST(UsageFindings, EitherSignOfALockWillDo) {
  const auto by_limit = with_second_device([](DeviceFacts& device) {
    device.application_clock_mhz = device.default_application_clock_mhz = {};
  });
  EXPECT_EQ(clocks_finding(by_limit).part.state, State::ok);
  const auto by_setting = with_second_device([](DeviceFacts& device) { device.limits = {}; });
  EXPECT_EQ(clocks_finding(by_setting).part.state, State::ok);
}

TEST(UsageFindings, ClocksThatAreNotKnown) {
  const auto ranks = with_second_device([](DeviceFacts& device) { device.clock_mhz = {}; });
  EXPECT_EQ(clocks_finding(ranks).part.state, State::missing);
  EXPECT_EQ(clocks_finding(ranks).against_times, "clocks are not known");
}

TEST(UsageFindings, ADeviceIsThrottled) {
  const auto ranks = with_second_device([](DeviceFacts& device) {
    device.limits = limit("clock_setting") | limit("power_cap") | limit("hw_thermal");
  });
  const Finding finding = limits_finding(ranks);
  EXPECT_EQ(finding.part.state, State::warning);
  EXPECT_THAT(finding.part.text, HasSubstr("0000:02:00.0 on node0: power_cap, hw_thermal; "));
  EXPECT_EQ(finding.against_times, "a device is throttled");
  const auto unknown = with_second_device([](DeviceFacts& device) { device.limits = {}; });
  EXPECT_EQ(limits_finding(unknown).part.state, State::missing);
  EXPECT_EQ(limits_finding(unknown).against_times, "throttling is not known");
}

TEST(UsageFindings, SomebodyElseUsesADevice) {
  const auto ranks = with_second_device([](DeviceFacts& device) {
    device.processes = std::vector<std::int64_t>{kFirstProcess + 1, 4242};
  });
  const Finding finding = processes_finding(ranks);
  EXPECT_EQ(finding.part.state, State::warning);
  EXPECT_EQ(finding.part.text,
            "0000:02:00.0 on node0: processes 4242 too; end them, or take other devices");
  EXPECT_EQ(finding.against_times, "other processes use a device");
}

TEST(UsageFindings, AnotherRankOfThisLaunchIsNobodyElse) {
  auto ranks = healthy_ranks();
  ranks[1].device = ranks[0].device;
  for (RankFacts& rank : ranks) {
    rank.devices[0].processes = std::vector<std::int64_t>{kFirstProcess, kFirstProcess + 1};
  }
  EXPECT_EQ(processes_finding(ranks).part.state, State::ok);
}

TEST(UsageFindings, InAContainerTheirNumberCounts) {
  // Numbers of the host, which this launch does not know its own by.
  const auto as_many = with_second_device(
      [](DeviceFacts& device) { device.processes = std::vector<std::int64_t>{9001}; });
  EXPECT_EQ(processes_finding(as_many).part.state, State::missing);
  EXPECT_EQ(processes_finding(as_many).against_times, "");
  const auto more = with_second_device([](DeviceFacts& device) {
    device.processes = std::vector<std::int64_t>{9001, 9002};
  });
  EXPECT_THAT(processes_finding(more).part.text, HasSubstr("1 other process too"));
  EXPECT_EQ(processes_finding(more).against_times, "other processes use a device");
  const auto hidden = with_second_device(
      [](DeviceFacts& device) { device.processes = std::vector<std::int64_t>{}; });
  EXPECT_EQ(processes_finding(hidden).part.state, State::missing);
}

TEST(UsageFindings, DevicesThatNoRankHasDoNotMatter) {
  auto ranks = with_second_device([](DeviceFacts& device) {
    device.limits = limit("power_cap");
    device.processes = std::vector<std::int64_t>{4242};
    device.compute_mode = nvml::kProhibited;
  });
  ranks.pop_back();
  for (const Finding& finding : {clocks_finding(ranks), limits_finding(ranks),
                                 processes_finding(ranks), compute_mode_finding(ranks)}) {
    EXPECT_EQ(finding.part.state, State::ok) << finding.part.text;
  }
}

TEST(UsageFindings, ComputeModesThatDoNotGoWithTheRanks) {
  EXPECT_EQ(compute_mode_finding(healthy_ranks()).part.text, "2 x default");
  auto ranks = with_second_device(
      [](DeviceFacts& device) { device.compute_mode = nvml::kExclusiveProcess; });
  EXPECT_EQ(compute_mode_finding(ranks).part.state, State::ok);
  ranks[0].device = ranks[1].device;
  const Finding shared = compute_mode_finding(ranks);
  EXPECT_EQ(shared.part.state, State::warning);
  EXPECT_THAT(shared.part.text, HasSubstr("exclusive, and ranks share it; nvidia-smi -c DEFAULT"));
  const auto prohibited =
      with_second_device([](DeviceFacts& device) { device.compute_mode = nvml::kProhibited; });
  EXPECT_THAT(compute_mode_finding(prohibited).part.text, HasSubstr("prohibited"));
}

TEST(UsageFindings, TrustSaysWhatDisturbsTimes) {
  const auto ranks =
      with_second_device([](DeviceFacts& device) { device.limits = limit("power_cap"); });
  const auto findings = machine_findings(ranks);
  EXPECT_EQ(lines_against_times(findings).size(), 1U);
  EXPECT_EQ(trust_part(findings).text,
            "checked results; not times, nor what is derived from them: a device is throttled");
}

}  // namespace
}  // namespace commfuse::fake

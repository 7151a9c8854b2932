// SPDX-License-Identifier: Apache-2.0
// NVML's answers as values, and what is said where it has none.
#include "harness/cuda/device_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "harness/cuda/machine_facts.h"
#include "tests/cuda/fake_nvml.h"

namespace commfuse::fake {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kPci = "0000:01:00.0";

/// One device, with what a test changes of it.
struct Bench {
  explicit Bench(const FakeCard& card = {}) { nvml.cards[kPci] = card; }
  [[nodiscard]] DeviceState state() const { return {NvmlLibrary(FakeNvml::functions()), kPci}; }
  FakeNvml nvml;
};

TEST(NvmlLibrary, WhatIsNotThereIsNamed) {
  try {
    NvmlLibrary::open("libno-such-library.so.1");
    FAIL() << "it was opened";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("libno-such-library.so.1"));
  }
}

TEST(NvmlLibrary, ALibraryWithoutItsFunctionsIsNamed) {
  try {
    NvmlLibrary::open("libm.so.6");
    FAIL() << "it was opened";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "libm.so.6 lacks nvmlInit_v2");
  }
}

TEST(DeviceState, IsFoundByItsAddress) {
  const Bench bench;
  try {
    const DeviceState other(NvmlLibrary(FakeNvml::functions()), "0000:02:00.0");
    FAIL() << "there is no such device";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "NVML does not show device 0000:02:00.0: Not Found");
  }
  EXPECT_EQ(bench.state().sm_clock_mhz(), 1980);
}

TEST(DeviceState, AReadingHasClockPowerEnergyAndLimits) {
  const Bench bench({.clock_mhz = 1755, .reasons = 0x4 | 0x40, .energy_mj = 5000});
  const DeviceState state = bench.state();
  const DeviceReading first = state.read();
  const DeviceReading second = state.read();
  EXPECT_EQ(first.sm_clock_mhz, 1755);
  EXPECT_EQ(second.energy_mj - first.energy_mj, 1000);
  EXPECT_GT(second.time_ns, first.time_ns);
  EXPECT_THAT(names_of_limits(first.limits), ElementsAre("power_cap", "hw_thermal"));
}

TEST(DeviceState, PowerIsReadWhereThereIsNoCounter) {
  EXPECT_EQ(Bench({.energy_mj = {}}).state().read().power_w, 700);
  EXPECT_EQ(Bench().state().read().power_w, 0);
}

TEST(DeviceState, EveryReasonHasItsNameAndIdleIsNone) {
  for (std::size_t i = 0; i + 1 < kClockLimits.size(); ++i) {
    const Bench bench({.reasons = 2ULL << i});
    EXPECT_THAT(names_of_limits(bench.state().read().limits), ElementsAre(kClockLimits[i]));
  }
  EXPECT_EQ(Bench({.reasons = 1}).state().limits(), 0U);
  EXPECT_THAT(names_of_limits(*Bench({.reasons = 0x8000}).state().limits()), ElementsAre("other"));
}

TEST(DeviceState, WhatTheDeviceDoesNotTellIsUnknown) {
  FakeCard mute;
  mute.clock_mhz = {};
  mute.reasons = {};
  mute.power_mw = {};
  mute.energy_mj = {};
  mute.ecc = {};
  mute.processes = {};
  mute.links = {};
  const Bench bench(mute);
  const DeviceState state = bench.state();
  const DeviceReading reading = state.read();
  EXPECT_EQ(reading.sm_clock_mhz, 0);
  EXPECT_EQ(reading.power_w, 0);
  EXPECT_EQ(reading.energy_mj, -1);
  EXPECT_FALSE(state.limits());
  EXPECT_FALSE(state.ecc());
  EXPECT_FALSE(state.processes());
  EXPECT_EQ(state.links()->active, 0);
}

TEST(DeviceState, AFunctionThatTheDriverLacksIsUnknownToo) {
  const Bench bench;
  NvmlFunctions few;
  const NvmlFunctions all = FakeNvml::functions();
  few.error_string = all.error_string;
  few.device_by_pci = all.device_by_pci;
  few.clock = all.clock;
  const DeviceState state(NvmlLibrary(few), kPci);
  EXPECT_EQ(state.read().sm_clock_mhz, 1980);
  EXPECT_EQ(state.read().energy_mj, -1);
  DeviceFacts facts;
  add_state(state, facts);
  EXPECT_EQ(facts.clock_mhz, 1980);
  EXPECT_FALSE(facts.application_clock_mhz || facts.max_clock_mhz || facts.limits || facts.ecc ||
               facts.persistence || facts.compute_mode || facts.processes || facts.links_active ||
               facts.fabric_state);
}

TEST(DeviceState, ListsMoreProcessesThanItFirstHasRoomFor) {
  const std::vector<unsigned int> many(40, 7);
  EXPECT_EQ(Bench({.processes = many}).state().processes()->size(), 40U);
}

TEST(DeviceState, CountsLinksThatAreUpAndDown) {
  const auto links = Bench({.links = {1, 1, 0, 1}}).state().links();
  EXPECT_EQ(links->active, 3);
  EXPECT_EQ(links->inactive, 1);
}

TEST(DeviceState, FactsHaveAllOfIt) {
  FakeCard card;
  card.application_clock_mhz = 1500;
  card.max_clock_mhz = 2100;
  card.compute_mode = nvml::kExclusiveProcess;
  card.fabric_state = nvml::kInProgress;
  card.persistence = 0;
  card.processes = std::vector<unsigned int>{11, 12};
  const Bench bench(card);
  DeviceFacts facts;
  add_state(bench.state(), facts);
  EXPECT_EQ(facts.application_clock_mhz, 1500);
  EXPECT_EQ(facts.default_application_clock_mhz, 1980);
  EXPECT_EQ(facts.max_clock_mhz, 2100);
  EXPECT_EQ(facts.compute_mode, nvml::kExclusiveProcess);
  EXPECT_EQ(facts.fabric_state, nvml::kInProgress);
  EXPECT_EQ(facts.persistence, false);
  EXPECT_EQ(facts.ecc, true);
  EXPECT_EQ(facts.links_active, 18);
  EXPECT_THAT(*facts.processes, ElementsAre(11, 12));
}

}  // namespace
}  // namespace commfuse::fake

// SPDX-License-Identifier: Apache-2.0
#include "harness/device_reading.h"

#include <gtest/gtest.h>

namespace commfuse {
namespace {

constexpr std::uint32_t kPowerCap = 1U << 1;
constexpr std::uint32_t kThermal = 1U << 5;

TEST(DeviceReading, LimitsHaveNames) {
  EXPECT_EQ(names_of_limits(kPowerCap | kThermal),
            (std::vector<std::string>{"power_cap", "hw_thermal"}));
  EXPECT_TRUE(names_of_limits(0).empty());
}

TEST(DeviceReading, ASampleLiesBetweenTwoReadings) {
  const DeviceReading before{1'000'000'000, 1000, 300, 5000, kPowerCap};
  const DeviceReading after{3'000'000'000, 1200, 500, 6000, kThermal};
  const DeviceSample sample = sample_between(before, after);
  EXPECT_DOUBLE_EQ(sample.clock_mhz, 1100);
  EXPECT_DOUBLE_EQ(sample.power_w, 400);
  EXPECT_DOUBLE_EQ(sample.energy_j, 1);
  EXPECT_DOUBLE_EQ(sample.seconds, 2);
  EXPECT_EQ(sample.limits, kPowerCap | kThermal);
}

TEST(DeviceReading, WhatIsNotKnownStaysOut) {
  const DeviceReading known{1, 1000, 300, 5000, 0};
  const DeviceReading unknown{2, 0, 0, -1, 0};
  EXPECT_DOUBLE_EQ(sample_between(unknown, known).clock_mhz, 1000);
  EXPECT_DOUBLE_EQ(sample_between(known, unknown).power_w, 300);
  EXPECT_DOUBLE_EQ(sample_between(known, unknown).energy_j, -1);
  EXPECT_DOUBLE_EQ(sample_between(known, std::nullopt).clock_mhz, 0);
  const DeviceReading restarted{2, 1000, 300, 10, 0};  // a counter that began anew
  EXPECT_DOUBLE_EQ(sample_between(known, restarted).energy_j, -1);
}

TEST(DeviceReading, DetailsHaveTheClockOfEverySample) {
  const DeviceSamples samples{{{1900, 600, 6, 0.01, 0}, {1700, 600, 2, 0.01, kPowerCap}},
                              {{1800, 600, 4, 0.01, 0}, {1800, 600, 4, 0.01, kThermal}}};
  const auto details = device_state_details(samples);
  EXPECT_DOUBLE_EQ(details["clock_mhz"]["mean"], 1800);
  EXPECT_DOUBLE_EQ(details["clock_mhz"]["least"], 1700);
  EXPECT_DOUBLE_EQ(details["clock_mhz"]["most"], 1900);
  EXPECT_EQ(details["clock_mhz"]["per_rank"].dump(), "[[1900.0,1700.0],[1800.0,1800.0]]");
  EXPECT_EQ(details["power_by"], "energy counter");
  EXPECT_DOUBLE_EQ(details["power_w"], 400);  // 8 J in 20 ms on either rank
  EXPECT_DOUBLE_EQ(details["power_over_s"], 0.02);
  EXPECT_EQ(details["limits"].dump(), R"(["power_cap","hw_thermal"])");
}

TEST(DeviceReading, WithoutACounterOnEveryRankPowerIsThatOfReadings) {
  const DeviceSamples samples{{{1900, 600, 6, 0.01, 0}}, {{1900, 500, -1, 0.01, 0}}};
  const auto details = device_state_details(samples);
  EXPECT_EQ(details["power_by"], "readings");
  EXPECT_DOUBLE_EQ(details["power_w"], 550);
  EXPECT_FALSE(details.contains("power_over_s"));
  EXPECT_TRUE(details["limits"].empty());
}

TEST(DeviceReading, AClockThatNobodyReadIsNoMeanOfZero) {
  const DeviceSamples samples{{{1900, 0, -1, 0.01, 0}, {}}, {{}, {}}};
  const auto details = device_state_details(samples);
  EXPECT_DOUBLE_EQ(details["clock_mhz"]["mean"], 1900);
  EXPECT_FALSE(details.contains("power_w"));
  EXPECT_TRUE(device_state_details(DeviceSamples(2, std::vector<DeviceSample>(1))).is_null());
}

}  // namespace
}  // namespace commfuse

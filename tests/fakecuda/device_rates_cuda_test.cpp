// SPDX-License-Identifier: Apache-2.0
// Rates of fake devices: what is printed and what is found. Their speed is that of the fakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "harness/cuda/device_rates.h"
#include "tests/fakecuda/call_fault.h"
#include "tests/fakecuda/fake_device.h"
#include "tests/fakecuda/fake_runtime.h"
#include "tests/fakecuda/fake_world.h"

namespace commfuse::fake {
namespace {

using State = SelfTestPart::State;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

RateLimits limits_of_rates() {
  RateLimits limits;
  limits.gemm_size = 32;
  limits.copy_bytes = 1 << 20;
  limits.link_bytes = 1 << 20;
  limits.collective_bytes = 3 << 12;
  limits.repetitions = 3;
  limits.collective_repetitions = 3;
  return limits;
}

FakeDevices cards(std::int32_t count) {
  FakeDevices devices;
  devices.count = count;
  devices.one_process = true;
  return devices;
}

/// The parts by name.
std::map<std::string, SelfTestPart> rates_of(std::int32_t ranks, const FakeDevices& devices,
                                             const RateLimits& limits = limits_of_rates()) {
  Machine machine({7});
  const FakeRuntime runtime(devices);
  std::map<std::string, SelfTestPart> parts;
  const Verdict verdict = run_fake_ranks(machine, ranks, [&](World& world) {
    const Device device = select_device(world);
    for (const SelfTestPart& part : measure_rates(
             world, device, GemmSettings{.workspace_bytes = 1 << 20}, NcclSettings{}, limits)) {
      EXPECT_EQ(world.rank(), 0);
      parts.emplace(part.name, part);
    }
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
  EXPECT_EQ(parts.size(), 5U);
  return parts;
}

TEST(DeviceRates, EveryPartHasItsRateSizeAndCount) {
  const auto parts = rates_of(3, cards(3));
  for (const auto& [name, part] : parts) EXPECT_EQ(part.state, State::ok) << name << part.text;
  EXPECT_THAT(parts.at("gemm rate").text,
              AllOf(HasSubstr(" TFLOP/s on 3 devices, least that of rank "),
                    HasSubstr("no datasheet of 'fake device "),
                    HasSubstr("cuBLASLt, 32 x 32 x 32 in bf16, best of 10")));
  // The fake takes a microsecond and 1 ns for 100 bytes: 2 MiB in 11.485 us.
  EXPECT_THAT(parts.at("copies within a device").text,
              AllOf(StartsWith("182.6 to 182.6 GB/s on 3 devices"),
                    HasSubstr("1 MiB read and as many written, median of 3")));
  EXPECT_THAT(parts.at("links between devices").text,
              AllOf(StartsWith("least 91.3 GB/s (rank 0 to 1), median 91.3, most 91.3 GB/s: "),
                    HasSubstr("; 6 of 6 pairs one after the other, one direction, 1 MiB by copy "
                              "engine, median of 3 each")));
  for (const char* collective : {"all_gather of nccl", "reduce_scatter of nccl"}) {
    EXPECT_THAT(parts.at(collective).text,
                AllOf(StartsWith("algbw "), HasSubstr(", busbw "),
                      HasSubstr("12288 bytes over 3 ranks, fp32, out of place, median of 3 of the "
                                "slowest rank")));
  }
}

TEST(DeviceRates, RanksThatShareACardHaveNeitherLinksNorCollectives) {
  const auto parts = rates_of(2, cards(1));
  EXPECT_THAT(parts.at("copies within a device").text,
              StartsWith("182.6 GB/s, no datasheet of 'fake device 0' is known here"));
  EXPECT_EQ(parts.at("links between devices").state, State::missing);
  EXPECT_EQ(parts.at("links between devices").text, "all ranks of a node share one device");
  for (const char* collective : {"all_gather of nccl", "reduce_scatter of nccl"}) {
    EXPECT_EQ(parts.at(collective).state, State::missing);
    EXPECT_EQ(parts.at(collective).text, "NCCL takes one rank per device and ranks share one");
  }
}

TEST(DeviceRates, OneRankOfEachCardIsEnoughForLinks) {
  const auto parts = rates_of(3, cards(2));
  EXPECT_EQ(parts.at("links between devices").state, State::ok);
  EXPECT_THAT(parts.at("links between devices").text, HasSubstr("; 2 of 2 pairs "));
  EXPECT_EQ(parts.at("all_gather of nccl").state, State::missing);
}

TEST(DeviceRates, OneRankHasNobodyToTalkTo) {
  const auto parts = rates_of(1, cards(1));
  EXPECT_EQ(parts.at("gemm rate").state, State::ok);
  EXPECT_EQ(parts.at("links between devices").text,
            "no node of this launch has two devices with a rank each");
  EXPECT_EQ(parts.at("reduce_scatter of nccl").text, "one rank has nobody to gather from");
}

TEST(DeviceRates, DevicesOutOfReachAreNamed) {
  FakeDevices devices = cards(2);
  devices.peer_access = false;
  const auto parts = rates_of(2, devices);
  EXPECT_EQ(parts.at("links between devices").state, State::missing);
  EXPECT_THAT(parts.at("links between devices").text,
              HasSubstr(" cannot reach the memory of device "));
  EXPECT_EQ(parts.at("all_gather of nccl").state, State::ok);
}

TEST(DeviceRates, WhatTheEnvironmentForbidsIsMissing) {
  setenv("NCCL_MIN_CTAS", "4", 1);
  const auto parts = rates_of(2, cards(2));
  unsetenv("NCCL_MIN_CTAS");
  EXPECT_EQ(parts.at("all_gather of nccl").state, State::missing);
  EXPECT_THAT(parts.at("reduce_scatter of nccl").text, HasSubstr("NCCL_MIN_CTAS"));
}

TEST(DeviceRates, SizesFollowTheFreeMemory) {
  FakeDevices devices = cards(2);
  devices.memory_bytes = 24 << 20;
  RateLimits limits = limits_of_rates();
  limits.copy_bytes = std::size_t{1} << 40;
  limits.link_bytes = std::size_t{1} << 40;
  const auto parts = rates_of(2, devices, limits);
  EXPECT_THAT(parts.at("copies within a device").text, HasSubstr("3 MiB read"));
  EXPECT_THAT(parts.at("links between devices").text, HasSubstr("3 MiB by copy engine"));

  devices.memory_bytes = 4 << 20;
  const auto none = rates_of(2, devices, limits);
  for (const char* name : {"copies within a device", "links between devices"}) {
    EXPECT_EQ(none.at(name).state, State::missing) << name;
    EXPECT_EQ(none.at(name).text, "too little memory is free on a device") << name;
  }
}

TEST(DeviceRates, PairsThatTakeTooLongAreLeftOut) {
  RateLimits limits = limits_of_rates();
  limits.link_seconds = -1;
  const auto parts = rates_of(2, cards(2), limits);
  EXPECT_EQ(parts.at("links between devices").state, State::missing);
  EXPECT_EQ(parts.at("links between devices").text, "no pair was done in -1 s");
}

/// Leaves out every copy within or between devices, or every collective.
class LostWork final : public CallFault {
 public:
  explicit LostWork(StreamCall::Kind kind) : kind_(kind) {}
  void at(const StreamCall& call, const Make& make) override {
    if (call.kind != kind_) make(call);
  }

 private:
  StreamCall::Kind kind_;
};

TEST(DeviceRates, CopiesThatDeliverNothingHaveFailed) {
  const LostWork fault(StreamCall::Kind::copy);
  const auto parts = rates_of(2, cards(2));
  EXPECT_EQ(parts.at("copies within a device").state, State::failed);
  EXPECT_THAT(parts.at("copies within a device").text,
              HasSubstr("on the device of rank 0 word 0 is 0xffffffff, must be "));
  EXPECT_EQ(parts.at("links between devices").state, State::failed);
  EXPECT_THAT(parts.at("links between devices").text,
              HasSubstr("of what rank 1 wrote to rank 0 word 0 is 0xffffffff, must be "));
  EXPECT_EQ(parts.at("all_gather of nccl").state, State::ok);
}

TEST(DeviceRates, CollectivesThatDeliverNothingHaveFailed) {
  const LostWork fault(StreamCall::Kind::joint);
  const auto parts = rates_of(2, cards(2));
  EXPECT_EQ(parts.at("copies within a device").state, State::ok);
  for (const char* collective : {"all_gather of nccl", "reduce_scatter of nccl"}) {
    EXPECT_EQ(parts.at(collective).state, State::failed);
    EXPECT_THAT(parts.at(collective).text, HasSubstr("on rank 0 element 0 is "));
  }
}

}  // namespace
}  // namespace commfuse::fake

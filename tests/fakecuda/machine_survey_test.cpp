// SPDX-License-Identifier: Apache-2.0
// What the CUDA backend finds out about a made-up machine, and what becomes of it: lines of
// --selftest, clocks in records, the refusal of --strict-env.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/cuda/cuda_backend.h"
#include "harness/environment.h"
#include "harness/options.h"
#include "harness/runner.h"
#include "harness/session.h"
#include "harness/world/watchdog.h"
#include "tests/cuda/fake_nvml.h"
#include "tests/cuda/made_up_root.h"
#include "tests/fakecuda/fake_device.h"
#include "tests/fakecuda/fake_runtime.h"
#include "tests/fakecuda/fake_world.h"
#include "tests/fakecuda/small_limits.h"

namespace commfuse::fake {
namespace {

using State = SelfTestPart::State;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kFirst = "0000:01:00.0";
const std::string kSecond = "0000:02:00.0";

/// Two cards under locked clocks that only this process uses.
struct Site {
  Site() {
    FakeCard card;
    card.application_clock_mhz = 1500;
    card.clock_mhz = 1500;
    card.processes = std::vector<unsigned int>{static_cast<unsigned int>(getpid())};
    nvml.cards[kFirst] = nvml.cards[kSecond] = card;
    devices.count = 2;
    devices.one_process = true;
    devices.memory_bytes = std::size_t{2} << 30;
    sources.nvml = NvmlLibrary(FakeNvml::functions());
    sources.root = root.path();
  }

  /// Runs `body` on two ranks, each with a card of its own.
  void run(const std::function<void(World&, CudaBackend&)>& body) const {
    // Ranks are threads, whatever they stand for: links between processes are not measured.
    RateLimits limits = small_limits();
    if (!devices.one_process) limits.link_bytes = 0;
    Machine machine({7});
    const FakeRuntime runtime(devices);
    const Verdict verdict = run_fake_ranks(machine, 2, [&](World& world) {
      BackendSettings settings;
      settings.profile = false;
      CudaBackend backend(world, settings, sources, limits);
      body(world, backend);
    });
    EXPECT_TRUE(verdict.ok()) << verdict.message;
  }

  /// Lines of --selftest by name.
  [[nodiscard]] std::map<std::string, SelfTestPart> parts() const {
    std::map<std::string, SelfTestPart> all;
    run([&](World& world, CudaBackend& backend) {
      const std::vector<SelfTestPart> own = backend.self_test();
      EXPECT_EQ(own.empty(), world.rank() != 0);
      for (const SelfTestPart& part : own) all[part.name] = part;
    });
    return all;
  }
  [[nodiscard]] SelfTestPart part(const std::string& name) const { return parts().at(name); }

  FakeNvml nvml;
  FakeDevices devices;
  MadeUpRoot root;
  MachineSources sources;
};

TEST(MachineSurvey, EveryLineIsThere) {
  const auto parts = Site().parts();
  for (const char* name :
       {"devices", "visibility", "peer access", "nvlink", "multicast (NVLS)", "nccl version",
        "clocks", "throttling", "other processes", "compute mode", "can be trusted"}) {
    ASSERT_TRUE(parts.contains(name)) << name;
    EXPECT_EQ(parts.at(name).state, State::ok) << name << ": " << parts.at(name).text;
  }
  EXPECT_EQ(parts.at("cupti").state, State::missing);     // not asked for
  EXPECT_EQ(parts.at("affinity").state, State::missing);  // the tree is empty
  EXPECT_THAT(parts.at("devices").text, HasSubstr("2 of them used by 2 ranks"));
  EXPECT_EQ(parts.at("clocks").text,
            "2 x SM clock now 1500 MHz, set 1500 MHz, at most 1980 MHz; locked");
}

TEST(MachineSurvey, DevicesWithoutPeerAccess) {
  Site site;
  site.devices.peer_access = false;
  const SelfTestPart part = site.part("peer access");
  EXPECT_EQ(part.state, State::warning);
  EXPECT_THAT(part.text, HasSubstr(kFirst + " to " + kSecond));
  EXPECT_THAT(part.text, HasSubstr(kSecond + " to " + kFirst));
}

TEST(MachineSurvey, RanksThatSeeOneDeviceEachDoNotShareIt) {
  Site site;
  site.devices.count = 1;
  site.devices.one_process = false;
  for (const bool own : {false, true}) {
    site.devices.own_devices = own;
    site.run([&](World&, CudaBackend& backend) {
      EXPECT_EQ(backend.libraries().at("ranks_per_device"), own ? "1" : "2");
    });
    EXPECT_EQ(site.part("visibility").state, own ? State::warning : State::ok);
  }
  EXPECT_THAT(site.part("visibility").text, HasSubstr("--gpu-bind=none"));
}

TEST(MachineSurvey, MulticastIsAskedOfTheDriver) {
  Site site;
  site.devices.multicast = false;
  EXPECT_EQ(site.part("multicast (NVLS)").text, "2 x not supported");
  site.devices.missing_driver_functions = {"cuDeviceGetAttribute"};
  EXPECT_EQ(site.part("multicast (NVLS)").state, State::missing);
}

TEST(MachineSurvey, FilesOfTheKernelAreRead) {
  Site site;
  site.root.write("sys/bus/pci/devices/0000:01:00.0/numa_node", "0\n");
  site.root.write("sys/bus/pci/devices/0000:02:00.0/numa_node", "1\n");
  site.root.write("sys/devices/system/node/node0/cpulist", "0-4095\n");
  site.root.write("sys/devices/system/node/node1/cpulist", "60000-60001\n");  // none of ours
  site.root.write("sys/class/infiniband/mlx5_0/device/numa_node", "0\n");
  const SelfTestPart far = site.part("affinity");
  EXPECT_EQ(far.state, State::warning);
  EXPECT_THAT(far.text, testing::AnyOf(HasSubstr("rank 1 may run on no processor"),
                                       HasSubstr("one processor only")));
}

TEST(MachineSurvey, OtherProcessesAndThrottlingAreSeen) {
  Site site;
  site.nvml.cards[kSecond].processes->push_back(1);
  site.nvml.cards[kFirst].reasons = 0x20;
  const auto parts = site.parts();
  EXPECT_THAT(parts.at("other processes").text, HasSubstr(kSecond + " on fake: processes 1 too"));
  EXPECT_THAT(parts.at("throttling").text, HasSubstr(kFirst + " on fake: sw_thermal"));
  EXPECT_THAT(parts.at("can be trusted").text,
              HasSubstr("not times, nor what is derived from them: a device is throttled, other "
                        "processes use a device"));
}

TEST(MachineSurvey, WithoutNvmlTheReasonIsSaid) {
  Site site;
  site.sources.nvml.reset();
  site.sources.without_nvml = "libnvidia-ml.so.1: cannot open shared object file";
  EXPECT_EQ(site.part("clocks").text, "unknown: libnvidia-ml.so.1: cannot open shared object file");
  site.run([](World&, CudaBackend& backend) { EXPECT_FALSE(backend.read_device().has_value()); });
}

TEST(MachineSurvey, ADeviceThatNvmlDoesNotShowIsNamed) {
  Site site;
  site.nvml.cards.erase(kSecond);
  EXPECT_EQ(site.part("clocks").text,
            "unknown: NVML does not show device " + kSecond + ": Not Found");
}

TEST(MachineSurvey, ARankReadsItsOwnDevice) {
  Site site;
  site.nvml.cards[kSecond].clock_mhz = 900;
  site.run([](World& world, CudaBackend& backend) {
    const auto reading = backend.read_device();
    ASSERT_TRUE(reading.has_value());
    EXPECT_EQ(reading->sm_clock_mhz, world.rank() == 0 ? 1500 : 900);
  });
}

std::vector<std::string> small_case() {
  return {"--backend", "cuda",  "--transport",   "ce",
          "--impl",    "plain", "--shape",       "hidden=64,ffn=128,heads=8,kv_heads=4",
          "--tokens",  "64",    "--profiler",    "none",
          "--dtype",   "bf16",  "--repetitions", "3"};
}

TEST(MachineSurvey, RecordsHaveTheClocksOfEverySample) {
  Site site;
  site.nvml.cards[kSecond].clock_mhz = 1000;
  site.nvml.cards[kSecond].reasons = 0x2 | 0x4;
  const Options options = parse_options(small_case());
  std::vector<Record> records;
  site.run([&](World& world, CudaBackend& backend) {
    Watchdog watchdog(world.rank(), world.host(), std::chrono::seconds(250),
                      [&](int exit_code) { world.abort(exit_code); });
    Launch launch{options, backend, watchdog, describe_environment(world, backend.libraries()),
                  0,       2,       {},       {}};
    const auto cases = expand_cases(options, world.ranks(), true);
    const std::unique_ptr<World> group = world.split(0);
    auto own = run_group(cases.at(0), world, *group, launch);
    if (world.rank() == 0) records = std::move(own);
  });
  ASSERT_EQ(records.size(), 3U);  // the bounds and plain
  for (const Record& record : records) {
    ASSERT_EQ(record.outcome, Outcome::ok) << record.reason;
    ASSERT_TRUE(record.details.contains("device_state")) << record.details.dump();
    const auto& state = record.details["device_state"];
    EXPECT_EQ(state["clock_mhz"]["per_rank"].dump(),
              "[[1500.0,1500.0,1500.0],[1000.0,1000.0,1000.0]]");
    EXPECT_EQ(state["clock_mhz"]["mean"], 1250);
    EXPECT_EQ(state["clock_mhz"]["least"], 1000);
    EXPECT_EQ(state["power_by"], "energy counter");
    EXPECT_EQ(state["limits"].dump(), R"(["clock_setting","power_cap"])");
  }
}

/// A session with --strict-env: its exit code and what it says.
struct Ended {
  int code = -1;
  std::string said;
};
Ended strict_session(const Site& site) {
  std::vector<std::string> arguments = small_case();
  arguments.emplace_back("--strict-env");
  const Options options = parse_options(arguments);
  Machine machine({7});
  const FakeRuntime runtime(site.devices);
  Ended ended;
  testing::internal::CaptureStderr();
  const Verdict verdict = run_fake_ranks(machine, 2, [&](World& world) {
    Watchdog watchdog(world.rank(), world.host(), std::chrono::seconds(250),
                      [&](int exit_code) { world.abort(exit_code); });
    const auto cuda = [&] {
      return std::make_unique<CudaBackend>(world, options.settings, site.sources, small_limits());
    };
    const int code = run_session(world, options, cuda, watchdog);
    if (world.rank() == 0) ended.code = code;
  });
  ended.said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(verdict.ok()) << verdict.message;
  return ended;
}

TEST(MachineSurvey, CaseB9StrictEnvRefusesToTime) {
  Site site;
  site.nvml.cards[kFirst].application_clock_mhz = 1980;
  site.nvml.cards[kSecond].processes->push_back(1);
  const Ended ended = strict_session(site);
  EXPECT_EQ(ended.code, kExitDoubtful);
  EXPECT_THAT(ended.said, HasSubstr("commfuse-bench: times are doubtful: clocks: "));
  EXPECT_THAT(ended.said, HasSubstr("commfuse-bench: times are doubtful: other processes: "));
  EXPECT_THAT(ended.said, HasSubstr("commfuse-bench: --strict-env: nothing was timed\n"));
}

TEST(MachineSurvey, CaseB9WhatCannotBeSeenIsRefusedToo) {
  Site site;
  site.sources.nvml.reset();
  site.sources.without_nvml = "no NVML";
  const Ended ended = strict_session(site);
  EXPECT_EQ(ended.code, kExitDoubtful);
  EXPECT_THAT(
      ended.said,
      HasSubstr("times are doubtful: clocks, throttling, other processes: unknown: no NVML\n"));
}

TEST(MachineSurvey, AQuietMachineHasNoDoubts) {
  Site().run(
      [](World&, CudaBackend& backend) { EXPECT_THAT(backend.doubts(), testing::IsEmpty()); });
}

}  // namespace
}  // namespace commfuse::fake

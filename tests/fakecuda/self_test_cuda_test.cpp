// SPDX-License-Identifier: Apache-2.0
// What the CUDA backend says of itself and of a machine that cannot carry it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "harness/cuda/cuda_backend.h"
#include "harness/cuda/nccl_smoke.h"
#include "harness/options.h"
#include "harness/self_test.h"
#include "harness/session.h"
#include "harness/world/watchdog.h"
#include "tests/fakecuda/fake_device.h"
#include "tests/fakecuda/fake_runtime.h"
#include "tests/fakecuda/fake_world.h"
#include "tests/fakecuda/small_limits.h"

namespace commfuse::fake {
namespace {

using State = SelfTestPart::State;
using testing::HasSubstr;
using testing::IsEmpty;

BackendSettings untraced() {
  BackendSettings settings;
  settings.profile = false;
  return settings;
}

/// The parts that come first, as rank 0 has them; the others must have none. What follows is of the
/// machine: machine_survey_test.cpp.
std::vector<SelfTestPart> parts_on(std::int32_t ranks, const FakeDevices& devices) {
  Machine machine({7});
  const FakeRuntime runtime(devices);
  std::vector<SelfTestPart> parts;
  const Verdict verdict = run_fake_ranks(machine, ranks, [&](World& world) {
    CudaBackend backend(world, untraced(), MachineSources{}, small_limits());
    std::vector<SelfTestPart> own = backend.self_test();
    if (world.rank() == 0) {
      parts = std::move(own);
    } else {
      EXPECT_THAT(own, IsEmpty());
    }
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
  EXPECT_GE(parts.size(), 10U);
  parts.resize(10);
  return parts;
}

TEST(CudaSelfTest, EveryPartIsRight) {
  for (const std::int32_t ranks : {1, 3}) {
    FakeDevices devices;
    devices.one_process = true;
    const auto parts = parts_on(ranks, devices);
    EXPECT_EQ(parts[0].state, State::ok) << parts[0].text;
    EXPECT_EQ(parts[0].text, "found in the driver; remote writes can be flushed");
    EXPECT_EQ(parts[1].name, "nccl");
    EXPECT_EQ(parts[1].state, State::ok) << parts[1].text;
    EXPECT_THAT(parts[1].text, HasSubstr("arrived on 3 lanes"));
    for (const std::size_t i : {2, 3, 4}) {
      EXPECT_THAT(parts[i].name, HasSubstr("nccl collective="));
      EXPECT_EQ(parts[i].state, State::ok) << parts[i].text;
    }
    EXPECT_EQ(parts[5].name, "gemm rate");
    EXPECT_EQ(parts[9].name, "reduce_scatter of nccl");
  }
}

TEST(CudaSelfTest, ADriverWithoutTheOperationsIsNamed) {
  FakeDevices devices;
  devices.missing_driver_functions = {"cuStreamWaitValue32"};
  devices.can_flush_remote_writes = false;
  const auto parts = parts_on(1, devices);
  EXPECT_EQ(parts[0].state, State::failed);
  EXPECT_EQ(parts[0].text, "the CUDA driver has no cuStreamWaitValue32");
  EXPECT_EQ(parts[1].state, State::ok);
}

TEST(CudaSelfTest, WhatTheEnvironmentForbidsIsMissing) {
  setenv("NCCL_MAX_CTAS", "4", 1);
  const auto parts = parts_on(1, {});
  unsetenv("NCCL_MAX_CTAS");
  EXPECT_EQ(parts[1].state, State::missing);
  EXPECT_THAT(parts[1].text, HasSubstr("NCCL_MAX_CTAS"));
  EXPECT_EQ(parts[4].state, State::missing);
}

TEST(CudaSelfTest, ABlockThatDiffersIsFound) {
  const std::array<float, 3> sent{1, 2, 3};
  EXPECT_EQ(first_difference(sent, sent), "");
  EXPECT_EQ(first_difference(sent, std::array<float, 3>{1, 2, 4}), "element 2 is 4, sent was 3");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(first_difference(sent, std::array<float, 3>{nan, 2, 3}),
            "element 0 is nan, sent was 1");
  EXPECT_EQ(first_difference(sent, std::array<float, 2>{1, 2}), "2 elements arrived, sent were 3");
}

/// What --selftest prints and ends with, on cards of one process.
struct Session {
  int code = -1;
  std::string output;
};
Session self_test(std::int32_t cards, std::vector<std::string> arguments) {
  for (const char* argument : {"--selftest", "--backend", "cuda", "--profiler", "none"}) {
    arguments.emplace_back(argument);
  }
  const Options options = parse_options(arguments);
  FakeDevices devices;
  devices.count = cards;
  devices.one_process = true;
  Machine machine({7});
  const FakeRuntime runtime(devices);
  Session session;
  testing::internal::CaptureStdout();
  const Verdict verdict = run_fake_ranks(machine, 2, [&](World& world) {
    Watchdog watchdog(world.rank(), world.host(), std::chrono::seconds(250),
                      [&](int exit_code) { world.abort(exit_code); });
    const auto cuda = [&] {
      return std::make_unique<CudaBackend>(world, options.settings, MachineSources{},
                                           small_limits());
    };
    const int code = run_session(world, options, cuda, watchdog);
    if (world.rank() == 0) session.code = code;
  });
  session.output = testing::internal::GetCapturedStdout();
  EXPECT_TRUE(verdict.ok()) << verdict.message;
  return session;
}

TEST(CudaSelfTest, RunsEveryWorkloadOverBothTransports) {
  for (const std::int32_t cards : {1, 2}) {
    const Session session = self_test(cards, {"--transport", cards == 1 ? "ce" : "nccl",
                                              "--benchmark_filter=model:even/.*dtype:bf16"});
    EXPECT_EQ(session.code, kExitOk);
    EXPECT_THAT(session.output, HasSubstr(", connections 8, copy_engines "));
    // Collectives with registered memory are NCCL's, and no copy engine reduces.
    EXPECT_THAT(session.output,
                HasSubstr(fmt::format("tpsp/mlp even 24 tokens bf16, 2 ranks: {}\n",
                                      cards == 1 ? "14 ok, 3 skipped" : "16 ok, 1 skipped")));
    EXPECT_THAT(session.output,
                HasSubstr(cards == 1 ? ": collective=symmetric belongs to transport nccl"
                                     : ": collective=copy_engine: copy engines add nothing"));
    EXPECT_THAT(session.output, HasSubstr("nccl: ok, "));
    EXPECT_THAT(session.output, HasSubstr("\ngemm rate: ok, "));
    EXPECT_THAT(session.output, HasSubstr("\ncopies within a device: ok, "));
    const char* with_peers = cards == 1 ? "missing, " : "ok, ";
    for (const char* part : {"links between devices", "all_gather of nccl"}) {
      EXPECT_THAT(session.output, HasSubstr(std::string("\n") + part + ": " + with_peers));
    }
    EXPECT_THAT(session.output, HasSubstr("\nclocks: missing, unknown: "));
    EXPECT_THAT(session.output, HasSubstr("\ncan be trusted: warning, "));
    EXPECT_THAT(session.output, HasSubstr(" cases ok, "));
    EXPECT_THAT(session.output, HasSubstr(", 0 wrong\n"));
  }
}

TEST(CudaSelfTest, CaseB10SetsTakeTurnsOverBothTransports) {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);  // every set has streams of its own
  for (const std::int32_t cards : {1, 2}) {
    const Session session = self_test(cards, {"--transport", cards == 1 ? "ce" : "nccl", "--cache",
                                              "rotate", "--benchmark_filter=mlp.*model:even/"});
    EXPECT_EQ(session.code, kExitOk);
    EXPECT_THAT(
        session.output,
        HasSubstr(cards == 1 ? "tpsp/mlp even 24 tokens bf16, 2 ranks: 14 ok, 3 skipped\n"
                             : "tpsp/mlp even 24 tokens bf16, 2 ranks: 16 ok, 1 skipped\n"));
    EXPECT_THAT(session.output, HasSubstr(", 0 wrong\n"));
  }
  unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
}

TEST(CudaBackend, KnowsItsDeviceAndSharesTransports) {
  FakeDevices devices;
  devices.count = 2;
  devices.one_process = true;
  Machine machine({7});
  const FakeRuntime runtime(devices);
  const Verdict verdict = run_fake_ranks(machine, 3, [&](World& world) {
    CudaBackend backend(world, untraced(), MachineSources{}, small_limits());
    EXPECT_EQ(backend.rank_device().name, world.rank() == 1 ? "fake device 1" : "fake device 0");
    EXPECT_EQ(backend.rank_device().ranks, world.rank() == 1 ? 1 : 2);
    EXPECT_EQ(backend.cache_bytes(), 50 << 20);  // the fakes' L2
    const CaseGroup cases =
        self_test_cases(parse_options({"--selftest"}), world.ranks(), true).front();
    const Workload workload = cases.workload->build(cases.shape, world.ranks());
    // 2 ranks of 3 on a device with 8 queues: one stream to push, 2 sets of two, one for credits.
    EXPECT_THROW(backend.executors(world, workload, "ce", 2), Unsupported);
    EXPECT_EQ(backend.executors(world, workload, "ce", 1).size(), 1U);
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
}

TEST(CudaBackend, CopyEnginesAreRefusedWhereMemoryIsOutOfReach) {
  FakeDevices devices;
  devices.count = 2;
  devices.one_process = true;
  devices.peer_access = false;
  Machine machine({7});
  const FakeRuntime runtime(devices);
  std::vector<std::string> reasons(2);
  const Verdict verdict = run_fake_ranks(machine, 2, [&](World& world) {
    CudaBackend backend(world, untraced(), MachineSources{}, small_limits());
    const CaseGroup cases =
        self_test_cases(parse_options({"--selftest"}), world.ranks(), true).front();
    try {
      backend.executor(world, cases.workload->build(cases.shape, world.ranks()), "ce");
    } catch (const Unsupported& error) {
      reasons[static_cast<std::size_t>(world.rank())] = error.what();
    }
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
  EXPECT_THAT(reasons[0], HasSubstr("transport ce: device "));
  EXPECT_THAT(reasons[0], HasSubstr(" cannot reach the memory of device "));
  EXPECT_EQ(reasons[0], reasons[1]);
}

TEST(CudaSelfTest, AWrongResultIsFound) {
  const Session session =
      self_test(1, {"--transport", "ce", "--benchmark_filter=tpsp/ag_gemm/impl:plain/model:even",
                    "--fault", "corrupt:rank=1:group=0"});
  EXPECT_EQ(session.code, kExitWrong);
  EXPECT_THAT(session.output, HasSubstr("  WRONG tpsp/ag_gemm/impl:plain/model:even/"));
}

TEST(CudaSelfTest, WhatTheQueuesCannotCarryIsSkippedWithTheReason) {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
  const Session session =
      self_test(1, {"--transport", "ce", "--benchmark_filter=tpsp/ag_gemm/impl:plain/model:even"});
  unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
  EXPECT_EQ(session.code, kExitAllSkipped);
  EXPECT_THAT(session.output, HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS is 1"));
  EXPECT_THAT(session.output, HasSubstr("nccl: ok, "));
}

/// Why there is no backend; the same text on every rank.
std::string refusal(const FakeDevices& devices) {
  Machine machine({7});
  const FakeRuntime runtime(devices);
  std::vector<std::string> texts(2);
  const Verdict verdict = run_fake_ranks(machine, 2, [&](World& world) {
    try {
      const CudaBackend backend(world, untraced(), MachineSources{});
    } catch (const Unsupported& error) {
      texts[static_cast<std::size_t>(world.rank())] = error.what();
    }
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
  EXPECT_EQ(texts[0], texts[1]);
  return texts[0];
}

TEST(CudaDevice, NoDriverAndAnOldOneAreToldApart) {
  FakeDevices devices;
  devices.device_count_error = cudaErrorInsufficientDriver;
  devices.driver_version = 0;
  EXPECT_EQ(refusal(devices), "--backend cuda on fake: there is no NVIDIA driver");
  devices.driver_version = 11080;
  EXPECT_THAT(refusal(devices), HasSubstr("the NVIDIA driver is for CUDA 11.8 and older, this "
                                          "program needs 13."));
  devices.device_count_error = cudaErrorNoDevice;
  EXPECT_THAT(refusal(devices), HasSubstr(cudaGetErrorString(cudaErrorNoDevice)));
}

}  // namespace
}  // namespace commfuse::fake

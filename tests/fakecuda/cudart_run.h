// SPDX-License-Identifier: Apache-2.0
// Runs of host functions that call the fake CUDA runtime, for its tests.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

#include "tests/fakecuda/fake_runtime.h"
#include "tests/fakecuda/fake_world.h"
#include "tests/fakecuda/seeds.h"

namespace commfuse::fake {

inline constexpr std::size_t kSlabBytes = std::size_t{2} << 20;  // what can be shared by handle

/// For what must not fail in a run: an error ends the host function.
inline void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorName(error));
}
inline void check(CUresult error) { check(static_cast<cudaError_t>(error)); }

struct RunSetup {
  FakeDevices devices;
  std::int32_t ranks = 1;
};

inline Verdict run_once(const RunSetup& setup, std::uint64_t seed,
                        const std::function<void(World&)>& body) {
  Machine machine({seed});
  const FakeRuntime runtime(setup.devices);
  return run_fake_ranks(machine, setup.ranks, [&](World& world) {
    check(cudaSetDevice(world.rank() % setup.devices.count));
    body(world);
  });
}

/// Every seed ends like this, with this part in the message.
inline void expect_runs(const RunSetup& setup, Verdict::Kind kind, const std::string& part,
                        const std::function<void(World&)>& body) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Verdict verdict = run_once(setup, seed, body);
    EXPECT_EQ(verdict.kind, kind) << "seed " << seed << ": " << verdict.message;
    EXPECT_THAT(verdict.message, testing::HasSubstr(part));
  }
}
inline void expect_ok(const RunSetup& setup, const std::function<void(World&)>& body) {
  expect_runs(setup, Verdict::Kind::ok, "", body);
}
inline void expect_ok(const std::function<void(World&)>& body) { expect_ok({}, body); }
/// A use of the API that the fake refuses, in a run of one rank.
inline void expect_misuse(const std::string& part, const std::function<void(World&)>& body) {
  expect_runs({}, Verdict::Kind::host_error, part, body);
}

inline cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}
inline cudaEvent_t new_event(unsigned int flags = cudaEventDisableTiming) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags));
  return event;
}
/// Device memory, all zero, as all streams know.
inline std::byte* zeroed(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes));
  check(cudaMemset(memory, 0, bytes));
  check(cudaDeviceSynchronize());
  return static_cast<std::byte*>(memory);
}

/// The driver's functions, as a program without libcuda gets them.
template <class Function>
Function driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess) throw std::runtime_error(name);
  return reinterpret_cast<Function>(function);
}
using ValueCall = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned int);
inline void write_value(cudaStream_t stream, const void* address, std::uint32_t value) {
  check(driver_function<ValueCall>("cuStreamWriteValue32")(
      stream, reinterpret_cast<CUdeviceptr>(address), value, CU_STREAM_WRITE_VALUE_DEFAULT));
}
inline void wait_value(cudaStream_t stream, const void* address, std::uint32_t wanted) {
  check(driver_function<ValueCall>("cuStreamWaitValue32")(
      stream, reinterpret_cast<CUdeviceptr>(address), wanted, CU_STREAM_WAIT_VALUE_GEQ));
}

}  // namespace commfuse::fake

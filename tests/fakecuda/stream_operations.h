// SPDX-License-Identifier: Apache-2.0
// What the API's functions put into streams: into the machine, or into the graph that captures the
// stream. Checks that the rank may touch the memory from the stream's device.
#pragma once

#include <driver_types.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "tests/fakecuda/fake_runtime.h"

namespace commfuse::fake {

/// What a profiler records of work in a stream.
enum class Activity : std::uint8_t {
  kernel,
  copy_within_device,
  copy_between_devices,
  copy_with_host,
  memset
};

/// Work for a stream. `bytes`: of copies and memsets.
struct Submission {
  Submission(Work what, Activity kind, std::size_t size)
      : work(std::move(what)), activity(kind), bytes(size) {}
  Work work;
  Activity activity;
  std::size_t bytes;
};

/// A write to a 32-bit value, or a wait for one.
struct ValueOperation {
  void* address = nullptr;
  std::uint32_t value = 0;
  enum class Kind : std::uint8_t { write, wait_greater_equal, wait_equal } kind = Kind::write;
};

/// Also tells the log of launches, once it is in the machine.
void submit(FakeRuntime& runtime, Machine& machine, StreamRef stream, Submission what);
void submit(FakeRuntime& runtime, Machine& machine, StreamRef stream, const ValueOperation& what);

void record(FakeRuntime& runtime, Machine& machine, StreamRef stream, cudaEvent_t event);
/// cudaErrorStreamCaptureIsolation where a stream that is captured would wait for one that is not,
/// or for one of another capture; cudaErrorCapturedEvent where the event's capture is over.
cudaError_t wait(FakeRuntime& runtime, Machine& machine, StreamRef stream, cudaEvent_t event);

}  // namespace commfuse::fake

// SPDX-License-Identifier: Apache-2.0
// What the fake CUDA runtime knows in one run: devices, streams, events, memory, what each rank has
// chosen. The functions of the API are in cudart_*.cpp; streams and memory themselves belong to the
// machine.
#pragma once

#include <driver_types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakecuda/fake_device.h"
#include "tests/fakecuda/machine.h"
#include "tests/fakecuda/pending_waits.h"
#include "tests/fakecuda/shared_memory_handles.h"
#include "tests/fakecuda/stream_capture.h"

namespace commfuse::fake {

struct FakeStream {
  std::int32_t rank = 0;
  Context context = 0;
  bool destroyed = false;
};

struct FakeEvent {
  std::int32_t rank = 0;
  bool timed = false;
  bool destroyed = false;
  std::optional<OpId> record;              // the last one outside of captures
  std::shared_ptr<StreamCapture> capture;  // the last record was part of it
  std::size_t point = 0;                   // of the capture
};

/// A graph with the hidden streams and events of its launches.
struct FakeGraphExec {
  CapturedGraph graph;
  std::vector<StreamRef> lanes;
  std::vector<EventId> points;
  EventId begins{};
  EventId ends{};
};

struct FakeAllocation {
  std::int32_t rank = 0;
  std::int32_t device = 0;
  Context context = 0;
  std::size_t bytes = 0;
};

/// What one rank, a host thread, has chosen and seen.
struct RankState {
  std::int32_t device = 0;
  cudaError_t last_error = cudaSuccess;
  std::int32_t streams = 0;      // created, for their names
  std::int32_t allocations = 0;  // made, for their names
};

/// From its construction to its destruction it is the one that the API's functions use; without one
/// they answer as on a machine without a driver. Made before Machine::run, used by one run.
class FakeRuntime {
 public:
  explicit FakeRuntime(FakeDevices devices);
  ~FakeRuntime();
  FakeRuntime(const FakeRuntime&) = delete;
  FakeRuntime& operator=(const FakeRuntime&) = delete;

  /// Null: there is none.
  static FakeRuntime* current();

  [[nodiscard]] const FakeDevices& devices() const { return devices_; }
  /// Of the calling rank.
  RankState& rank();
  [[nodiscard]] Context context();
  [[nodiscard]] Context context_of(std::int32_t device) const;

  StreamId create_stream(Machine& machine);
  EventId create_event(Machine& machine, bool timed);
  /// What a handle means to the calling rank. Throw Finding for what is no stream or event, was
  /// destroyed, or belongs to another process.
  FakeStream& stream(cudaStream_t handle);
  FakeEvent& event(cudaEvent_t handle);
  StreamRef use(cudaStream_t handle);
  /// The stream that calls without a stream use, which synchronises with no other of the backend.
  StreamRef default_stream(Machine& machine);

  /// The capture that the stream is part of; null if there is none.
  [[nodiscard]] std::shared_ptr<StreamCapture> capture_of(StreamId stream) const;
  /// Whether the calling rank captures, so that a call that may synchronise is an error. The
  /// capture is lost then.
  bool spoils_capture();

  /// cudaErrorMemoryAllocation through a null result.
  void* allocate(Machine& machine, std::size_t bytes);
  void release(Machine& machine, void* base);
  /// The live allocation of cudaMalloc that contains the address; null if there is none.
  [[nodiscard]] const std::pair<const void* const, FakeAllocation>* allocation(
      const void* address) const;
  [[nodiscard]] std::size_t free_bytes(std::int32_t device) const;

  /// Throws Finding unless the calling rank may touch the memory from a device.
  void check_reach(const Range& range, Context context) const;
  /// An operation on it was enqueued.
  void note_touch(const Range& range, StreamId stream, OpId op);

  /// Throws Finding if the call may synchronise a device on which a wait may be pending.
  void check_lull(const Machine& machine, const std::string& call);
  /// A kernel is about to run, or is asked about, which loads it.
  void load(const Machine& machine, const void* kernel, const std::string& name);
  /// Dynamic shared memory that a launch of the kernel may ask for, in bytes.
  [[nodiscard]] int shared_limit(const void* kernel) const;
  void set_shared_limit(const void* kernel, int bytes) { shared_limits_[kernel] = bytes; }

  PendingWaits waits;
  SharedMemoryHandles shared;
  std::map<StreamId, std::shared_ptr<StreamCapture>> captures;
  std::vector<std::unique_ptr<CapturedGraph>> graphs;       // null: destroyed
  std::vector<std::unique_ptr<FakeGraphExec>> graph_execs;  // null: destroyed
  std::set<std::pair<Context, std::int32_t>> peers;         // enabled, with the peer's device

  struct Pinned {
    std::unique_ptr<std::byte[]> block;
    std::size_t bytes = 0;
  };
  std::map<const void*, Pinned> pinned;  // host memory, by base
  /// Whether all of it lies in one block of pinned host memory.
  [[nodiscard]] bool is_pinned(const Range& range) const;

 private:
  FakeDevices devices_;
  std::map<std::int32_t, RankState> ranks_;
  std::map<StreamId, FakeStream> streams_;
  std::map<EventId, FakeEvent> events_;
  std::map<Context, StreamId> default_streams_;
  std::map<const void*, FakeAllocation> allocations_;  // live, by base
  std::set<std::pair<Context, const void*>> loaded_;
  std::map<const void*, int> shared_limits_;
};

}  // namespace commfuse::fake

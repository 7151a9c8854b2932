// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/stream_operations.h"

#include <vector>

#include "tests/fakecuda/handles.h"
#include "tests/fakecuda/launch_log.h"

namespace commfuse::fake {
namespace {

LaunchKind launch_kind(Activity activity) {
  switch (activity) {
    case Activity::copy_within_device:
      return LaunchKind::copy_within_device;
    case Activity::copy_between_devices:
      return LaunchKind::peer_copy;
    case Activity::copy_with_host:
      return LaunchKind::copy_with_host;
    case Activity::memset:
      return LaunchKind::memset;
    case Activity::kernel:
      break;
  }
  return LaunchKind::kernel;
}

OpId enqueue(Machine& machine, StreamId stream, const ValueOperation& what) {
  switch (what.kind) {
    case ValueOperation::Kind::wait_greater_equal:
      return machine.wait_value(stream, what.address, what.value, Compare::greater_equal);
    case ValueOperation::Kind::wait_equal:
      return machine.wait_value(stream, what.address, what.value, Compare::equal);
    case ValueOperation::Kind::write:
      break;
  }
  return machine.write_value(stream, what.address, what.value);
}

/// Keeps the call for the graph if the stream is being captured.
template <class What>
bool captured(FakeRuntime& runtime, StreamId stream, const What& what) {
  StreamCapture* capture = runtime.capture_of(stream).get();
  if (capture == nullptr) return false;
  capture->add(stream, [what](FakeRuntime& later, Machine& machine, StreamRef lane) {
    submit(later, machine, lane, what);
  });
  return true;
}

}  // namespace

void submit(FakeRuntime& runtime, Machine& machine, StreamRef stream, Submission what) {
  std::vector<Range> ranges = what.work.reads;
  ranges.insert(ranges.end(), what.work.writes.begin(), what.work.writes.end());
  for (const Range& range : ranges) runtime.check_reach(range, stream.context);
  if (captured(runtime, stream.id, what)) return;
  const std::string name = what.work.name;
  const OpId op = machine.work(stream.id, std::move(what.work));
  for (const Range& range : ranges) runtime.note_touch(range, stream.id, op);
  note_launch(op, launch_kind(what.activity), name, what.bytes);
}

void submit(FakeRuntime& runtime, Machine& machine, StreamRef stream, const ValueOperation& what) {
  const Range range{what.address, sizeof what.value};
  runtime.check_reach(range, stream.context);
  if (captured(runtime, stream.id, what)) return;
  const OpId op = enqueue(machine, stream.id, what);
  runtime.note_touch(range, stream.id, op);
  if (what.kind != ValueOperation::Kind::write) runtime.waits.add(stream.context, op);
}

void record(FakeRuntime& runtime, Machine& machine, StreamRef stream, cudaEvent_t handle) {
  FakeEvent& event = runtime.event(handle);
  event.capture = runtime.capture_of(stream.id);
  if (event.capture) {
    event.point = event.capture->record(stream.id);
  } else {
    event.record = machine.record(stream.id, event_of(handle));
  }
}

cudaError_t wait(FakeRuntime& runtime, Machine& machine, StreamRef stream, cudaEvent_t handle) {
  const FakeEvent& event = runtime.event(handle);
  const auto capture = runtime.capture_of(stream.id);
  if (capture && capture != event.capture) {
    capture->invalidate();
    return cudaErrorStreamCaptureIsolation;
  }
  if (event.capture) {
    if (!event.capture->active()) return cudaErrorCapturedEvent;
    event.capture->wait(stream, event.point);
    runtime.captures[stream.id] = event.capture;
  } else {
    machine.wait(stream.id, event_of(handle));
  }
  return cudaSuccess;
}

}  // namespace commfuse::fake

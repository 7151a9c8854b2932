// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/stream_operations.h"

#include <vector>

#include "tests/fakecuda/call_fault.h"
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

StreamCall::Kind call_kind(Activity activity) {
  switch (activity) {
    case Activity::kernel:
      return StreamCall::Kind::kernel;
    case Activity::copy_within_device:
    case Activity::copy_between_devices:
      return StreamCall::Kind::copy;
    default:
      return StreamCall::Kind::other_work;
  }
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
  make_call({.kind = call_kind(what.activity), .stream = stream.id},
            [&runtime, &machine, what, ranges](const StreamCall& call) {
              const OpId op = machine.work(call.stream, what.work);
              for (const Range& range : ranges) runtime.note_touch(range, call.stream, op);
              note_launch(op, launch_kind(what.activity), what.work.name, what.bytes);
            });
}

void submit(FakeRuntime& runtime, Machine& machine, StreamRef stream, const ValueOperation& what) {
  const Range range{what.address, sizeof what.value};
  runtime.check_reach(range, stream.context);
  if (captured(runtime, stream.id, what)) return;
  const bool writes = what.kind == ValueOperation::Kind::write;
  const StreamCall asked{
      .kind = writes ? StreamCall::Kind::write_value : StreamCall::Kind::wait_value,
      .stream = stream.id,
      .address = static_cast<std::byte*>(what.address),
      .value = what.value};
  make_call(asked, [&runtime, &machine, stream, kind = what.kind](const StreamCall& call) {
    const OpId op = enqueue(machine, call.stream, {call.address, call.value, kind});
    runtime.note_touch({call.address, sizeof call.value}, call.stream, op);
    if (kind != ValueOperation::Kind::write) runtime.waits.add(stream.context, op);
  });
}

void record(FakeRuntime& runtime, Machine& machine, StreamRef stream, cudaEvent_t handle) {
  FakeEvent& event = runtime.event(handle);
  event.capture = runtime.capture_of(stream.id);
  if (event.capture) {
    event.point = event.capture->record(stream.id);
  } else {
    make_call({.kind = StreamCall::Kind::record, .stream = stream.id, .event = event_of(handle)},
              [&machine, &event](const StreamCall& call) {
                event.record = machine.record(call.stream, call.event);
              });
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
    make_call(
        {.kind = StreamCall::Kind::wait_event, .stream = stream.id, .event = event_of(handle)},
        [&machine](const StreamCall& call) { machine.wait(call.stream, call.event); });
  }
  return cudaSuccess;
}

}  // namespace commfuse::fake

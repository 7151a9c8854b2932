// SPDX-License-Identifier: Apache-2.0
// Streams and events.
#include <cuda_runtime_api.h>

#include <memory>

#include "tests/fakecuda/cudart_call.h"
#include "tests/fakecuda/handles.h"
#include "tests/fakecuda/stream_operations.h"

namespace {

using commfuse::fake::cudart_call;
using commfuse::fake::event_of;
using commfuse::fake::FakeEvent;
using commfuse::fake::FakeRuntime;
using commfuse::fake::Finding;
using commfuse::fake::handle_of;
using commfuse::fake::Machine;
using commfuse::fake::record;
using commfuse::fake::StreamCapture;
using commfuse::fake::StreamRef;
using commfuse::fake::Verdict;
using commfuse::fake::wait;

constexpr double kNsPerMs = 1e6;

/// Asking or waiting for what is being captured is an error, by which the capture is lost.
bool spoils(const std::shared_ptr<StreamCapture>& capture) {
  if (capture) capture->invalidate();
  return capture != nullptr;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    if (flags != cudaStreamNonBlocking) {
      throw Finding(Verdict::Kind::host_error, "the stream would wait for the default stream");
    }
    runtime.check_lull(machine, "creating a stream");
    *stream = handle_of(runtime.create_stream(machine));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine&) {
    runtime.stream(stream).destroyed = true;  // what is in it goes on
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    const StreamRef awaited = runtime.use(stream);
    if (spoils(runtime.capture_of(awaited.id))) return cudaErrorStreamCaptureUnsupported;
    machine.synchronise(awaited.id);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    const StreamRef asked = runtime.use(stream);
    if (spoils(runtime.capture_of(asked.id))) return cudaErrorStreamCaptureUnsupported;
    return machine.query(asked.id) ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    if (flags != cudaEventWaitDefault) return cudaErrorInvalidValue;
    return wait(runtime, machine, runtime.use(stream), event);
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    constexpr unsigned int kKnown = cudaEventBlockingSync | cudaEventDisableTiming;
    if ((flags & ~kKnown) != 0) return cudaErrorInvalidValue;
    *event = handle_of(runtime.create_event(machine, (flags & cudaEventDisableTiming) == 0));
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine&) {
    runtime.event(event).destroyed = true;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    record(runtime, machine, runtime.use(stream), event);
    return cudaSuccess;
  });
}

/// An event that is recorded externally belongs to no capture: each launch of the graph records it,
/// and who asks for it outside of the graph learns of the last launch.
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    const StreamRef target = runtime.use(stream);
    if (flags == cudaEventRecordDefault) {
      record(runtime, machine, target, event);
      return cudaSuccess;
    }
    const auto capture = runtime.capture_of(target.id);
    if (flags != cudaEventRecordExternal || !capture) return cudaErrorInvalidValue;
    runtime.event(event);
    capture->add(target.id, [event](FakeRuntime& later, Machine& replaying, StreamRef lane) {
      record(later, replaying, lane, event);
    });
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    if (spoils(runtime.event(event).capture)) return cudaErrorCapturedEvent;
    return machine.query(event_of(event)) ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    if (spoils(runtime.event(event).capture)) return cudaErrorCapturedEvent;
    machine.synchronise(event_of(event));
    return cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    for (const cudaEvent_t event : {start, end}) {
      const FakeEvent& recorded = runtime.event(event);
      if (!recorded.timed || !recorded.record) return cudaErrorInvalidResourceHandle;
    }
    for (const cudaEvent_t event : {start, end}) {
      if (!machine.query(event_of(event))) return cudaErrorNotReady;
    }
    const auto time_ns = [&](cudaEvent_t event) {
      return machine.times(*runtime.event(event).record).end_ns;
    };
    *ms = static_cast<float>(static_cast<double>(time_ns(end) - time_ns(start)) / kNsPerMs);
    return cudaSuccess;
  });
}

}  // extern "C"

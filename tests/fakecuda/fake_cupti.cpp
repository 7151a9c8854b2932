// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/fake_cupti.h"

#include <stdexcept>
#include <utility>

#include "tests/fakecuda/machine.h"
#include "tests/fakecuda/verdict.h"

namespace commfuse::fake {
namespace {

FakeCupti*& slot() {
  static FakeCupti* cupti = nullptr;
  return cupti;
}

bool is_external_kind(CUpti_ExternalCorrelationKind kind) {
  return kind > CUPTI_EXTERNAL_CORRELATION_KIND_INVALID &&
         kind < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE;
}

}  // namespace

const CUpti_CallbackId FakeCupti::kDriverLaunch = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx;

FakeCupti::FakeCupti(const FakeCuptiOptions& options)
    : options_(options), log_([this](const LaunchNote& launch) { note(launch); }) {
  slot() = this;
}

FakeCupti::~FakeCupti() { slot() = nullptr; }

FakeCupti& FakeCupti::current() {
  if (slot() == nullptr) throw std::logic_error("there is no fake CUPTI");
  return *slot();
}

FakeCupti::Process& FakeCupti::process() {
  return processes_[options_.process_per_rank ? Machine::current_rank() : 0];
}

CUptiResult FakeCupti::subscribe(CUpti_SubscriberHandle* subscriber) {
  Process& own = process();
  if (subscriber == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (options_.other_client || own.subscribed) {
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  }
  own.subscribed = true;
  *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(&own);
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::unsubscribe(CUpti_SubscriberHandle subscriber) {
  Process& own = process();
  const bool is_own = subscriber == reinterpret_cast<CUpti_SubscriberHandle>(&own);
  if (!is_own || !own.subscribed) return CUPTI_ERROR_INVALID_PARAMETER;
  own.subscribed = false;
  own.kinds.clear();
  own.driver_calls.clear();
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::enable(CUpti_ActivityKind kind, bool enabled) {
  if (kind <= CUPTI_ACTIVITY_KIND_INVALID || kind >= CUPTI_ACTIVITY_KIND_COUNT) {
    return CUPTI_ERROR_INVALID_KIND;
  }
  if (enabled && kind == CUPTI_ACTIVITY_KIND_KERNEL) {
    throw Finding(Verdict::Kind::host_error, "records of kind KERNEL serialise all kernels");
  }
  if (enabled) process().kinds.insert(kind);
  if (!enabled) process().kinds.erase(kind);
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::enable_driver_call(CUpti_CallbackId call, bool enabled) {
  if (call == CUPTI_DRIVER_TRACE_CBID_INVALID || call >= CUPTI_DRIVER_TRACE_CBID_SIZE) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  if (enabled) process().driver_calls.insert(call);
  if (!enabled) process().driver_calls.erase(call);
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::register_callbacks(CUpti_BuffersCallbackRequestFunc request,
                                          CUpti_BuffersCallbackCompleteFunc complete) {
  if (request == nullptr || complete == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  process().request = request;
  process().complete = complete;
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::register_timestamp(CUpti_TimestampCallbackFunc callback) {
  Process& own = process();
  if (callback == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (own.callback != nullptr) {
    throw Finding(Verdict::Kind::host_error,
                  "a second timestamp callback was registered: it corrupts the records' times");
  }
  if (!own.kinds.empty()) {
    throw Finding(Verdict::Kind::host_error,
                  "a timestamp callback was registered after kinds of records were enabled");
  }
  own.callback = callback;
  own.epoch_ns = static_cast<std::int64_t>(callback()) - Machine::current().host_now_ns();
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::set_attribute(CUpti_ActivityAttribute attribute, const std::size_t* bytes,
                                     const void* value) {
  if (bytes == nullptr || value == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (attribute == CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER) {
    process().zeroed_buffers = *static_cast<const std::uint8_t*>(value) != 0;
  }
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::timestamp(std::uint64_t* time) {
  if (time == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *time = static_cast<std::uint64_t>(process().epoch_ns + Machine::current().host_now_ns());
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::push(CUpti_ExternalCorrelationKind kind, std::uint64_t id) {
  if (!is_external_kind(kind)) return CUPTI_ERROR_INVALID_PARAMETER;
  process().stacks[Machine::current_rank()][kind].push_back(id);
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::pop(CUpti_ExternalCorrelationKind kind, std::uint64_t* last) {
  if (!is_external_kind(kind)) return CUPTI_ERROR_INVALID_PARAMETER;
  std::vector<std::uint64_t>& stack = process().stacks[Machine::current_rank()][kind];
  if (stack.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  if (last != nullptr) *last = stack.back();
  stack.pop_back();
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::dropped(std::size_t* count) {
  if (count == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (options_.dropped_count_unreadable) return CUPTI_ERROR_NOT_INITIALIZED;
  *count = std::exchange(process().dropped, 0);
  return CUPTI_SUCCESS;
}

}  // namespace commfuse::fake

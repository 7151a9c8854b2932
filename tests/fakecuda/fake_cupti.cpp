// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/fake_cupti.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "harness/cuda/cupti_records.h"
#include "tests/fakecuda/cupti_delivery.h"
#include "tests/fakecuda/machine.h"
#include "tests/fakecuda/verdict.h"

namespace commfuse::fake {
namespace {

constexpr std::int64_t kCall_ns = 500;      // how long a recorded call takes
constexpr std::uint32_t kFirstStream = 13;  // the small numbers are the driver's own

FakeCupti*& slot() {
  static FakeCupti* cupti = nullptr;
  return cupti;
}

CUpti_ActivityKind record_kind(LaunchKind kind) {
  switch (kind) {
    case LaunchKind::copy_within_device:
    case LaunchKind::copy_with_host:
      return CUPTI_ACTIVITY_KIND_MEMCPY;
    case LaunchKind::peer_copy:
      return CUPTI_ACTIVITY_KIND_MEMCPY2;
    case LaunchKind::memset:
      return CUPTI_ACTIVITY_KIND_MEMSET;
    default:
      return CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  }
}

bool is_external_kind(CUpti_ExternalCorrelationKind kind) {
  return kind > CUPTI_EXTERNAL_CORRELATION_KIND_INVALID &&
         kind < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE;
}

/// What records of all kinds of device work share.
struct Place {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint32_t device = 0;
  std::uint32_t stream = 0;
  std::uint32_t correlation = 0;
};

template <class Record>
Record placed(CUpti_ActivityKind kind, const Place& place) {
  Record record{};
  record.kind = kind;
  record.start = place.start;
  record.end = place.end;
  record.deviceId = place.device;
  record.contextId = place.device + 1;
  record.streamId = place.stream;
  record.correlationId = place.correlation;
  return record;
}

template <class Record>
Record copy_record(const LaunchNote& launch, const Place& place, bool by_multiprocessors) {
  Record record = placed<Record>(record_kind(launch.kind), place);
  record.copyKind = launch.kind == LaunchKind::peer_copy        ? CUPTI_ACTIVITY_MEMCPY_KIND_PTOP
                    : launch.kind == LaunchKind::copy_with_host ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOD
                                                                : CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
  record.bytes = launch.bytes;
  record.channelType =
      by_multiprocessors ? CUPTI_CHANNEL_TYPE_COMPUTE : CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY;
  return record;
}

bool add_device_record(const LaunchNote& launch, const Place& place, const char* name,
                       bool by_multiprocessors, CuptiDelivery& delivery) {
  const CUpti_ActivityKind kind = record_kind(launch.kind);
  if (launch.kind == LaunchKind::peer_copy) {
    return delivery.add(copy_record<PeerCopyRecord>(launch, place, by_multiprocessors));
  }
  if (kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    return delivery.add(copy_record<CopyRecord>(launch, place, by_multiprocessors));
  }
  if (kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    auto record = placed<MemsetRecord>(kind, place);
    record.bytes = launch.bytes;
    return delivery.add(record);
  }
  auto record = placed<KernelRecord>(kind, place);
  record.name = name;
  record.channelType = CUPTI_CHANNEL_TYPE_COMPUTE;
  return delivery.add(record);
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

void FakeCupti::note(const LaunchNote& launch) {
  Process& own = process();
  Pending pending{
      launch, ++own.correlations, own.kinds.contains(record_kind(launch.kind)), false, {}};
  pending.call_record = launch.by_driver ? own.kinds.contains(CUPTI_ACTIVITY_KIND_DRIVER) ||
                                               own.driver_calls.contains(kDriverLaunch)
                                         : own.kinds.contains(CUPTI_ACTIVITY_KIND_RUNTIME);
  if (pending.call_record && own.kinds.contains(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)) {
    for (const auto& [kind, stack] : own.stacks[Machine::current_rank()]) {
      if (!stack.empty()) pending.external.emplace_back(kind, stack.back());
    }
  }
  if (pending.device_record || pending.call_record) own.pending.push_back(std::move(pending));
}

void FakeCupti::deliver_device_record(Process& process, const Pending& pending,
                                      CuptiDelivery& delivery) {
  const std::int64_t number = process.device_records++;
  const Machine& machine = Machine::current();
  const Op& op = machine.operation(pending.launch.op);
  const StreamId stream = pending.launch.stream.value_or(op.stream);
  Place place;
  place.start = static_cast<std::uint64_t>(process.epoch_ns + op.times.start_ns);
  place.end = static_cast<std::uint64_t>(process.epoch_ns + op.times.end_ns);
  if (!op.done) place.end = 0;
  const std::int64_t after_dropped = number - options_.dropped;
  if (after_dropped >= 0 && after_dropped < options_.zero_time) place.start = place.end = 0;
  const std::int64_t after_zero = after_dropped - options_.zero_time;
  if (after_zero >= 0 && after_zero < options_.reversed) place.end = place.start - 1;
  place.device = static_cast<std::uint32_t>(machine.device_of(stream));
  place.stream = static_cast<std::uint32_t>(stream) + kFirstStream;
  place.correlation = pending.correlation;
  const char* const name = names_.insert(pending.launch.name).first->c_str();
  const bool delivered =
      number >= options_.dropped &&
      add_device_record(pending.launch, place, name, options_.copies_use_multiprocessors, delivery);
  if (!delivered) ++process.dropped;
}

void FakeCupti::deliver(Process& process, const Pending& pending, CuptiDelivery& delivery) {
  for (const auto& [kind, id] : pending.external) {
    ExternalRecord record{};
    record.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    record.externalKind = kind;
    record.externalId = id;
    record.correlationId = pending.correlation;
    if (!delivery.add(record)) ++process.dropped;
  }
  if (pending.call_record) {
    const std::int64_t begin_ns =
        process.epoch_ns + Machine::current().operation(pending.launch.op).issue_ns;
    ApiRecord record{};
    record.kind =
        pending.launch.by_driver ? CUPTI_ACTIVITY_KIND_DRIVER : CUPTI_ACTIVITY_KIND_RUNTIME;
    record.start = static_cast<std::uint64_t>(begin_ns);
    record.end = static_cast<std::uint64_t>(begin_ns + kCall_ns);
    record.correlationId = pending.correlation;
    if (!delivery.add(record)) ++process.dropped;
  }
  if (pending.device_record) deliver_device_record(process, pending, delivery);
}

CUptiResult FakeCupti::flush(bool forced) {
  Process& own = process();
  const auto unfinished = [](const Pending& pending) {
    return !Machine::current().operation(pending.launch.op).done;
  };
  if (!forced && std::ranges::any_of(own.pending, unfinished)) return CUPTI_SUCCESS;
  CuptiDelivery delivery(own.request, own.complete, own.zeroed_buffers);
  for (const Pending& pending : std::exchange(own.pending, {})) deliver(own, pending, delivery);
  delivery.finish();
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::dropped(std::size_t* count) {
  if (count == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (options_.dropped_count_unreadable) return CUPTI_ERROR_NOT_INITIALIZED;
  *count = std::exchange(process().dropped, 0);
  return CUPTI_SUCCESS;
}

}  // namespace commfuse::fake

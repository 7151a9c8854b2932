// SPDX-License-Identifier: Apache-2.0
// What the fake CUPTI records of a launch, and how it hands it out.
#include <algorithm>
#include <utility>

#include "harness/cuda/cupti_records.h"
#include "tests/fakecuda/cupti_delivery.h"
#include "tests/fakecuda/fake_cupti.h"
#include "tests/fakecuda/machine.h"

namespace commfuse::fake {
namespace {

constexpr std::int64_t kCall_ns = 500;      // how long a recorded call takes
constexpr std::uint32_t kFirstStream = 13;  // the small numbers are the driver's own

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

}  // namespace commfuse::fake

// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/activity_parser.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "harness/cuda/cupti_records.h"

namespace commfuse {
namespace {

std::string demangled(const char* name) {
  if (name == nullptr) return "";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return text == nullptr ? name : text.get();
}

/// What all device records share. A record without a believable time is counted and left out.
template <class Record>
void keep(const Record& record, Activity activity, ActivityLog& log) {
  activity.begin_ns = static_cast<std::int64_t>(record.start);
  activity.end_ns = static_cast<std::int64_t>(record.end);
  activity.device = record.deviceId;
  activity.stream = record.streamId;
  activity.correlation = record.correlationId;
  // A kernel that was still running when the buffer was handed out has an end of 0.
  if (record.start == 0 || record.end == 0) {
    ++log.without_time;
  } else if (record.end < record.start) {
    ++log.reversed;
  } else {
    log.activities.push_back(std::move(activity));
  }
}

template <class Record>
Activity copy_of(const Record& record, ActivityKind kind) {
  Activity activity;
  activity.kind = kind;
  activity.bytes = static_cast<std::int64_t>(record.bytes);
  activity.within_device = record.copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
  activity.copy_engine = record.channelType == CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY;
  return activity;
}

void keep_external(const ExternalRecord& record, ActivityLog& log) {
  if (record.externalKind != CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0) return;
  log.external[record.correlationId] = record.externalId;
}

void keep_call(const ApiRecord& record, ActivityLog& log) {
  const LaunchCall call{static_cast<std::int64_t>(record.start),
                        static_cast<std::int64_t>(record.end)};
  LaunchCall& kept = log.launches.try_emplace(record.correlationId, call).first->second;
  // A runtime call may share its number with the driver call inside it.
  if (call.begin_ns < kept.begin_ns) kept = call;
}

void take(const CUpti_Activity& record, ActivityLog& log) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = reinterpret_cast<const KernelRecord&>(record);
      Activity activity;
      activity.name = demangled(kernel.name);
      return keep(kernel, std::move(activity), log);
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = reinterpret_cast<const CopyRecord&>(record);
      return keep(copy, copy_of(copy, ActivityKind::copy), log);
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      const auto& copy = reinterpret_cast<const PeerCopyRecord&>(record);
      return keep(copy, copy_of(copy, ActivityKind::peer_copy), log);
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& memset = reinterpret_cast<const MemsetRecord&>(record);
      Activity activity;
      activity.kind = ActivityKind::memset;
      activity.bytes = static_cast<std::int64_t>(memset.bytes);
      return keep(memset, std::move(activity), log);
    }
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return keep_call(reinterpret_cast<const ApiRecord&>(record), log);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return keep_external(reinterpret_cast<const ExternalRecord&>(record), log);
    default:
      return;
  }
}

}  // namespace

void parse_activities(const CuptiLibrary& cupti, std::span<std::byte> bytes, ActivityLog& log) {
  auto* const buffer = reinterpret_cast<std::uint8_t*>(bytes.data());
  CUpti_Activity* record = nullptr;
  CUptiResult result = CUPTI_SUCCESS;
  while ((result = cupti->activity_get_next_record(buffer, bytes.size(), &record)) ==
         CUPTI_SUCCESS) {
    take(*record, log);
  }
  if (result != CUPTI_ERROR_MAX_LIMIT_REACHED) ++log.unreadable;
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/cupti_tracer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "harness/cuda/activity_parser.h"
#include "harness/cuda/cupti_buffers.h"
#include "harness/world/clock.h"

namespace commfuse {
namespace {

// CONCURRENT_KERNEL, never KERNEL, which runs kernels one after the other.
constexpr std::array kKinds{
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMCPY2,           CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_RUNTIME,           CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
    CUPTI_ACTIVITY_KIND_OVERHEAD};
constexpr int kBrackets = 32;
// NCCL launches its kernels by this call of the driver.
constexpr CUpti_CallbackId kLaunchKernelEx = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx;

std::uint64_t CUPTIAPI monotonic_time() { return static_cast<std::uint64_t>(monotonic_ns()); }

const char* remedy(CUptiResult result) {
  switch (result) {
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      return "another profiler is attached to this process; run without it, or with --profiler "
             "none";
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return "set NVreg_RestrictProfilingToAdminUsers=0 for the nvidia module, or run as root";
    default:
      return "times come from events alone";
  }
}

}  // namespace

std::string CuptiTracer::complaint(const char* call, CUptiResult result) const {
  const char* text = nullptr;
  if (cupti_->get_result_string(result, &text) != CUPTI_SUCCESS) text = "unknown";
  return fmt::format("no timeline by CUPTI: {} says {}; {}", call, text, remedy(result));
}

std::unique_ptr<CuptiTracer> CuptiTracer::start(const CuptiLibrary& cupti, std::string& reason) {
  std::unique_ptr<CuptiTracer> tracer(new CuptiTracer(cupti));
  CuptiBuffers::of_process().allocate_ahead();
  reason = tracer->subscribe();
  if (reason.empty()) reason = tracer->measure_clock();
  if (!reason.empty()) tracer.reset();
  return tracer;
}

std::string CuptiTracer::subscribe() {
  CUptiResult result = cupti_->subscribe(&subscriber_, nullptr, nullptr);
  if (result != CUPTI_SUCCESS) return complaint("cuptiSubscribe", result);
  // Once per process: a second registration corrupts records.
  result = cupti_->activity_register_timestamp_callback(monotonic_time);
  if (result != CUPTI_SUCCESS) return complaint("cuptiActivityRegisterTimestampCallback", result);
  result = cupti_->activity_register_callbacks(CuptiBuffers::requested, CuptiBuffers::completed);
  if (result != CUPTI_SUCCESS) return complaint("cuptiActivityRegisterCallbacks", result);
  return "";
}

/// A time of CUPTI lies between two of ours, or it does not use our clock.
std::string CuptiTracer::measure_clock() {
  for (int i = 0; i < kBrackets; ++i) {
    const std::int64_t before = monotonic_ns();
    std::uint64_t between = 0;
    const CUptiResult result = cupti_->get_timestamp(&between);
    const std::int64_t after = monotonic_ns();
    if (result != CUPTI_SUCCESS) return complaint("cuptiGetTimestamp", result);
    const auto time = static_cast<std::int64_t>(between);
    if (time < before || time > after) {
      return "no timeline by CUPTI: it does not take this process's clock";
    }
    const std::int64_t bracket = after - before;
    uncertainty_ns_ = i == 0 ? bracket : std::min(uncertainty_ns_, bracket);
  }
  return "";
}

std::string CuptiTracer::enable() {
  for (const CUpti_ActivityKind kind : kKinds) {
    const CUptiResult result = cupti_->activity_enable(kind);
    if (result != CUPTI_SUCCESS) {
      disable();
      return complaint("cuptiActivityEnable", result);
    }
  }
  cupti_->activity_enable_driver_api(kLaunchKernelEx, 1);
  return "";
}

void CuptiTracer::disable() {
  cupti_->activity_enable_driver_api(kLaunchKernelEx, 0);
  for (const CUpti_ActivityKind kind : kKinds) cupti_->activity_disable(kind);
}

void CuptiTracer::collect() {
  log_ = {};
  const bool flushed =
      cupti_->activity_flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) == CUPTI_SUCCESS;
  std::vector<CuptiBuffers::Filled> filled = CuptiBuffers::of_process().take();
  std::size_t dropped = 0;
  // Each reading starts the count anew.
  const bool counted =
      cupti_->activity_get_num_dropped_records(nullptr, 0, &dropped) == CUPTI_SUCCESS;
  log_.dropped.reset();
  if (flushed && counted) log_.dropped = static_cast<std::int64_t>(dropped);
  for (const CuptiBuffers::Filled& each : filled) parse_activities(cupti_, each.records(), log_);
  CuptiBuffers::of_process().give_back(std::move(filled));
}

void CuptiTracer::push_id(std::uint64_t id) {
  cupti_->push_external_correlation_id(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, id);
}

void CuptiTracer::pop_id() {
  std::uint64_t id = 0;
  cupti_->pop_external_correlation_id(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &id);
}

}  // namespace commfuse

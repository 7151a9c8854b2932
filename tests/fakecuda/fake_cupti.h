// SPDX-License-Identifier: Apache-2.0
// A fake CUPTI: the functions of the table in harness/cuda/cupti_library.h, with records of what
// the other fakes launched, at the machine's virtual times.
//
// As with the real one, something is recorded if its kind was enabled at its launch; external ids
// come with the record of the API call, and calls of the driver (NCCL's) are recorded only if they
// were asked for; a flush that is not forced withholds unfinished records, and a forced one hands
// them out without an end, for good; each read of the dropped count resets it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/cuda/cupti_library.h"
#include "tests/fakecuda/launch_log.h"

namespace commfuse::fake {

/// What goes wrong, on request.
struct FakeCuptiOptions {
  bool other_client = false;  // cuptiSubscribe returns error 39
  bool dropped_count_unreadable = false;
  bool copies_use_multiprocessors = false;
  std::int32_t dropped = 0;    // of device records: the first ones of each process
  std::int32_t zero_time = 0;  // then these have neither begin nor end
  std::int32_t reversed = 0;   // then these end before they begin
  /// Every rank is a process with a CUPTI of its own; otherwise they are threads that share one.
  bool process_per_rank = false;
};

/// Of one run, made before its machine runs; from its construction to its destruction it is the
/// current one, and listens to all launches.
class FakeCupti {
 public:
  /// Virtual time 0, if no timestamp callback says otherwise.
  static constexpr std::int64_t kEpoch_ns = 1'000'000'000'000;
  /// The driver's call by which NCCL launches.
  static const CUpti_CallbackId kDriverLaunch;

  explicit FakeCupti(const FakeCuptiOptions& options = {});
  ~FakeCupti();
  FakeCupti(const FakeCupti&) = delete;
  FakeCupti& operator=(const FakeCupti&) = delete;

  /// For CuptiLibrary. The functions serve the current fake; cuptiActivityGetNextRecord needs none.
  [[nodiscard]] static CuptiFunctions functions();
  /// Of the functions. Throws std::logic_error if there is none.
  static FakeCupti& current();

  CUptiResult subscribe(CUpti_SubscriberHandle* subscriber);
  CUptiResult unsubscribe(CUpti_SubscriberHandle subscriber);
  CUptiResult enable(CUpti_ActivityKind kind, bool enabled);
  CUptiResult enable_driver_call(CUpti_CallbackId call, bool enabled);
  CUptiResult register_callbacks(CUpti_BuffersCallbackRequestFunc request,
                                 CUpti_BuffersCallbackCompleteFunc complete);
  CUptiResult register_timestamp(CUpti_TimestampCallbackFunc callback);
  CUptiResult set_attribute(CUpti_ActivityAttribute attribute, const std::size_t* bytes,
                            const void* value);
  CUptiResult timestamp(std::uint64_t* time);
  CUptiResult flush(bool forced);
  CUptiResult dropped(std::size_t* count);
  CUptiResult push(CUpti_ExternalCorrelationKind kind, std::uint64_t id);
  CUptiResult pop(CUpti_ExternalCorrelationKind kind, std::uint64_t* last);

 private:
  using Stacks = std::map<CUpti_ExternalCorrelationKind, std::vector<std::uint64_t>>;

  /// A launch that is to be delivered.
  struct Pending {
    LaunchNote launch;
    std::uint32_t correlation = 0;
    bool device_record = false;
    bool call_record = false;
    std::vector<std::pair<CUpti_ExternalCorrelationKind, std::uint64_t>> external;
  };
  struct Process {
    bool subscribed = false;
    bool zeroed_buffers = false;
    std::set<CUpti_ActivityKind> kinds;
    std::set<CUpti_CallbackId> driver_calls;
    CUpti_BuffersCallbackRequestFunc request = nullptr;
    CUpti_BuffersCallbackCompleteFunc complete = nullptr;
    CUpti_TimestampCallbackFunc callback = nullptr;
    std::int64_t epoch_ns = kEpoch_ns;
    std::map<std::int32_t, Stacks> stacks;  // by the rank of the host thread
    std::vector<Pending> pending;
    std::uint32_t correlations = 0;
    std::int64_t device_records = 0;
    std::size_t dropped = 0;
  };

  Process& process();
  void note(const LaunchNote& launch);
  void deliver(Process& process, const Pending& pending, class CuptiDelivery& delivery);
  void deliver_device_record(Process& process, const Pending& pending,
                             class CuptiDelivery& delivery);

  FakeCuptiOptions options_;
  std::map<std::int32_t, Process> processes_;
  std::set<std::string> names_;  // of kernels: records point at them
  LaunchLog log_;
};

}  // namespace commfuse::fake

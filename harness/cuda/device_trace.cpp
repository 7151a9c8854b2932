// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/device_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <regex>
#include <tuple>
#include <utility>

namespace commfuse {
namespace {

/// Expected work by id, with the number of activities that were found.
struct Found {
  ExpectedWork expected;
  std::int32_t count = 0;
};
using ById = std::map<std::uint64_t, Found>;

bool is_nccl_kernel(const Activity& activity) {
  static const std::regex pattern("^(void )?nccl.*Kernel");
  return activity.kind == ActivityKind::kernel && std::regex_search(activity.name, pattern);
}

/// Rules 1 and 2.
std::string damage(const ActivityLog& log) {
  if (!log.dropped) return "it is not known whether records were dropped";
  if (*log.dropped > 0) return fmt::format("{} records were dropped", *log.dropped);
  if (log.unreadable > 0) return fmt::format("{} buffers could not be read whole", log.unreadable);
  if (log.without_time > 0) return fmt::format("{} records have no time", log.without_time);
  if (log.reversed > 0) return fmt::format("{} records end before they begin", log.reversed);
  return "";
}

void join(const ActivityLog& log, ById& found, DeviceTrace& trace) {
  for (const Activity& activity : log.activities) {
    if (activity.kind == ActivityKind::memset) continue;
    const auto id = log.external.find(activity.correlation);
    const auto work = id == log.external.end() ? found.end() : found.find(id->second);
    if (work == found.end()) {
      trace.unattributed.push_back(activity);
      continue;
    }
    ++work->second.count;
    trace.work.push_back({work->first, work->second.expected.kind, activity});
  }
}

/// Rules 3 and 4.
std::string missing(const ById& found) {
  for (const auto& [id, work] : found) {
    const auto& [expected, count] = work;
    if (count >= expected.fewest && count <= expected.most) continue;
    if (expected.kind == WorkKind::sentinel) return fmt::format("sentinel {} is missing", id);
    return fmt::format("op {} left {} activities, expected {}", id, count,
                       expected.most == kAnyNumber ? fmt::format("{} or more", expected.fewest)
                       : expected.most == expected.fewest
                           ? fmt::format("{}", expected.fewest)
                           : fmt::format("{} to {}", expected.fewest, expected.most));
  }
  return "";
}

/// Whether both belong to one transfer of any number of copies, which a library may issue as a
/// batch.
bool in_one_batch(const ActivityLog& log, const ById& found, const Activity& a, const Activity& b) {
  const auto first = log.external.find(a.correlation);
  const auto second = log.external.find(b.correlation);
  if (first == log.external.end() || second == log.external.end()) return false;
  const auto work = found.find(first->second);
  return first->second == second->second && work != found.end() &&
         work->second.expected.kind == WorkKind::transfer &&
         work->second.expected.most == kAnyNumber;
}

/// Rule 5. Activities of one stream run one after the other.
std::string overlap(const ActivityLog& log, const ById& found) {
  std::vector<const Activity*> order;
  for (const Activity& activity : log.activities) order.push_back(&activity);
  std::ranges::sort(order, {}, [](const Activity* a) {
    return std::tuple(a->device, a->stream, a->begin_ns, a->end_ns);
  });
  std::size_t last = 0;  // of those of its stream so far, what ends last
  for (std::size_t i = 1; i < order.size(); ++i) {
    const Activity& a = *order[last];
    const Activity& b = *order[i];
    const bool same_stream = a.device == b.device && a.stream == b.stream;
    if (!same_stream || b.end_ns >= a.end_ns) last = i;
    if (!same_stream || b.begin_ns >= a.end_ns || in_one_batch(log, found, a, b)) continue;
    return fmt::format("two activities overlap by {} ns in stream {} of device {}",
                       a.end_ns - b.begin_ns, a.stream, a.device);
  }
  return "";
}

/// Rule 6. The device's clock is mapped to the host's by interpolation, hence the uncertainty.
std::string early(const ActivityLog& log, std::int64_t uncertainty_ns) {
  for (const Activity& activity : log.activities) {
    const auto call = log.launches.find(activity.correlation);
    if (call == log.launches.end()) continue;
    const std::int64_t ahead = call->second.begin_ns - activity.begin_ns;
    if (ahead > uncertainty_ns) {
      return fmt::format("an activity began {} ns before it was launched", ahead);
    }
  }
  return "";
}

std::string contradiction(const DeviceTrace& trace) {
  for (const DeviceWork& work : trace.work) {
    if (is_nccl_kernel(work.activity) && work.kind != WorkKind::transfer) {
      return fmt::format("op {} transfers nothing, and ran {}", work.id, work.activity.name);
    }
  }
  return "";
}

}  // namespace

DeviceTrace examine(const ActivityLog& log, std::span<const ExpectedWork> expected,
                    std::int64_t uncertainty_ns) {
  ById found;
  for (const ExpectedWork& work : expected) found[work.id] = {work, 0};
  DeviceTrace trace;
  join(log, found, trace);
  for (const std::string& reason : {damage(log), missing(found), overlap(log, found),
                                    early(log, uncertainty_ns), contradiction(trace)}) {
    if (trace.reason.empty()) trace.reason = reason;
  }
  if (!trace.reason.empty()) trace.work.clear();
  std::erase_if(trace.work, [](const DeviceWork& work) { return work.kind == WorkKind::sentinel; });
  return trace;
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/trace_run.h"

#include <algorithm>

#include "harness/cuda/launches.h"
#include "harness/cuda/trace_timeline.h"
#include "harness/world/wire.h"

namespace commfuse {
namespace {

/// What belongs to this rank or to nobody; the counts of damage are everybody's.
ActivityLog of_rank(const ActivityLog& log, std::int32_t rank) {
  ActivityLog own = log;
  const std::uint64_t first = event_trace_id(rank, 0) - 1;
  std::erase_if(own.activities, [&](const Activity& activity) {
    const auto id = log.external.find(activity.correlation);
    return id != log.external.end() &&
           (id->second < first || id->second >= first + kTraceIdsPerRank);
  });
  return own;
}

}  // namespace

TraceRun::TraceRun(World& group, CuptiTracer& tracer, bool one_process, CudaPlan& plan,
                   const CudaChannel* channel, const CudaKernels& kernels,
                   const DeviceStorage& storage, cudaStream_t compute)
    : group_(group),
      tracer_(tracer),
      leads_(!one_process || group.rank() == 0),
      plan_(plan),
      streams_{compute} {
  if (channel != nullptr) {
    const std::vector<cudaStream_t> others = channel->streams();
    streams_.insert(streams_.end(), others.begin(), others.end());
  }
  add_expected(channel, kernels, storage);
  group_.barrier();
  if (leads_) failure_ = tracer_.enable();
  failure_ = first_text(group_, failure_);
  plan_.marks.trace_with(&tracer_);
}

TraceRun::~TraceRun() {
  plan_.marks.trace_with(nullptr);
  if (leads_) tracer_.disable();
}

void TraceRun::add_expected(const CudaChannel* channel, const CudaKernels& kernels,
                            const DeviceStorage& storage) {
  const std::int32_t rank = plan_.program.plan().rank;
  for (const EventId id : plan_.program.compute_lane()) {
    const auto op = plan_.program.compute(id);
    if (!op) continue;
    const LaunchCount launches = kernels.launches(*op, storage);
    const WorkKind kind = std::holds_alternative<Copy>(*op) ? WorkKind::copy : WorkKind::compute;
    expected_.push_back({event_trace_id(rank, id), kind, launches.fewest, launches.most});
  }
  if (channel != nullptr) {
    for (const ChannelWork& work : channel->work()) {
      expected_.push_back({event_trace_id(rank, work.event), WorkKind::transfer, work.activities,
                           work.or_more ? kAnyNumber : work.activities});
    }
  }
  for (std::size_t i = 0; i < 2 * streams_.size(); ++i) {
    expected_.push_back({sentinel_trace_id(rank, i), WorkKind::sentinel, 1, 1});
  }
}

void TraceRun::launch_sentinels(std::size_t first) {
  const std::int32_t rank = plan_.program.plan().rank;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    tracer_.push_id(sentinel_trace_id(rank, first + i));
    launch_sentinel(streams_[i]);
    tracer_.pop_id();
  }
}

TracedIteration TraceRun::iteration(const std::function<Timeline()>& run) {
  launch_sentinels(0);
  TracedIteration traced{.reason = failure_, .timeline = run()};
  launch_sentinels(streams_.size());
  CFB_CUDA(cudaDeviceSynchronize());
  group_.barrier();
  if (leads_) tracer_.collect();
  group_.barrier();
  if (!failure_.empty()) return traced;
  const ActivityLog log = of_rank(tracer_.log(), plan_.program.plan().rank);
  const DeviceTrace trace = examine(log, expected_, tracer_.uncertainty_ns());
  traced.reason = trace.reason;
  if (!traced.reason.empty()) return traced;
  traced.by_copy_engine = all_by_copy_engine(trace);
  traced.uncertainty_ns = tracer_.uncertainty_ns();
  traced.unattributed = static_cast<std::int64_t>(trace.unattributed.size());
  lay_out(trace, plan_.program, traced.timeline);
  return traced;
}

}  // namespace commfuse

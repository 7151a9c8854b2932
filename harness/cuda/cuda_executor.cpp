// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/cuda_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "harness/cuda/compute_stamps.h"
#include "harness/cuda/host_values.h"
#include "harness/cuda/iteration_graph.h"
#include "harness/cuda/rank_storage.h"
#include "harness/cuda/refusal.h"
#include "harness/cuda/slab.h"
#include "harness/cuda/trace_run.h"
#include "harness/cuda/warm_up.h"
#include "harness/world/clock.h"
#include "harness/world/watchdog.h"

namespace commfuse {
struct CudaExecutor::Prepared {
  explicit Prepared(const Plan& source)
      : plan(source), program(plan.program), runs(compute_runs(program)) {}

  const DeviceStorage& storage() const {
    return storages[static_cast<std::size_t>(program.plan().rank)];
  }

  CudaPlan plan;
  const Program& program;
  std::vector<ComputeRun> runs;
  std::shared_ptr<const PeerMemory> scratch;  // a quiet plan shares its origin's
  std::vector<DeviceStorage> storages;        // by rank
  std::unique_ptr<CudaChannel> channel;       // null if no rank communicates
  std::vector<ComputeStamps> stamps;          // by iteration of a run
  CudaEvent compute_end{EventUse::order};
  std::optional<IterationGraph> graph;  // it uses all of the above
  Epoch next = 1;
};

CudaExecutor::CudaExecutor(World& group, const Device& device, const GemmSettings& settings,
                           std::span<const Tensor> tensors, std::span<const TensorId> weights,
                           std::shared_ptr<CudaTransport> transport, const Tracing& tracing,
                           Issue issue)
    : group_(group),
      tensors_(tensors.begin(), tensors.end()),
      is_weight_(tensors.size(), false),
      tracing_(tracing),
      issue_(issue),
      compute_(device.compute_priority),
      end_(device.compute_priority),
      transport_(std::move(transport)),
      kernels_(settings, compute_) {
  for (const TensorId id : weights) is_weight_.at(id) = true;
  memory_.allocate(group, SlabLayout(tensors).bytes, transport_->reach());
}

CudaExecutor::~CudaExecutor() = default;

void CudaExecutor::prepare_compute(const Prepared& prepared) {
  for (const EventId id : prepared.program.compute_lane()) {
    if (const auto op = prepared.program.compute(id)) kernels_.prepare(*op, prepared.storage());
  }
  warm_up(prepared.program, kernels_, compute_);
}

void CudaExecutor::capture(Prepared& prepared) {
  prepared.stamps.emplace_back(prepared.runs, issue_);
  CudaChannel* const channel = prepared.channel.get();
  std::vector<cudaStream_t> others{end_};
  if (channel != nullptr) {
    const std::vector<cudaStream_t> streams = channel->streams();
    others.insert(others.end(), streams.begin(), streams.end());
  }
  prepared.graph.emplace(
      compute_, others, [&] { enqueue_iteration(prepared, Turn{}, 0); },
      [&] {
        if (channel != nullptr) channel->prepare_for_replay(compute_);
      });
}

PlanHandle CudaExecutor::keep(std::unique_ptr<Prepared> prepared) {
  prepared_.push_back(std::move(prepared));
  return prepared_.size() - 1;
}

// Allocating and loading may wait for the whole device. The barrier: nothing of an earlier run
// still waits on a device that ranks share.
PlanHandle CudaExecutor::prepare(const Plan& plan) {
  require_plan_of(plan, group_.rank(), group_.ranks(), tensors_.size());
  transport_->require_support(plan);
  group_.barrier();
  auto prepared = std::make_unique<Prepared>(plan);
  std::string refusal;
  try {
    fill(*prepared);
  } catch (const Unsupported& error) {  // on every rank alike
    refusal = error.what();
  }
  if (!refusal.empty()) {
    prepared.reset();  // here, since it gives its memory back only where nothing unwinds
    throw Unsupported(refusal);
  }
  return keep(std::move(prepared));
}

void CudaExecutor::fill(Prepared& prepared) {
  const Plan& plan = prepared.program.plan();
  auto scratch = std::make_shared<PeerMemory>();
  scratch->allocate(group_, scratch_bytes(plan), transport_->reach());
  prepared.storages = storages_of_ranks(plan, memory_, *scratch);
  prepared.scratch = std::move(scratch);
  do_alike(group_, [&] { prepare_compute(prepared); });
  // A rank may have nothing to send or receive where others do.
  if (group_.max(prepared.program.communicates() ? 1 : 0) > 0) {
    prepared.channel = transport_->open(prepared.plan, prepared.storages, issue_);
  }
  if (issue_ == Issue::graph) capture(prepared);
}

PlanHandle CudaExecutor::prepare_quiet(const Plan& plan, PlanHandle origin) {
  require_plan_of(plan, group_.rank(), group_.ranks(), tensors_.size());
  auto prepared = std::make_unique<Prepared>(plan);
  if (prepared->program.communicates()) {
    throw std::invalid_argument("a quiet plan has no communication");
  }
  group_.barrier();
  prepared->scratch = prepared_.at(origin)->scratch;
  prepared->storages = prepared_.at(origin)->storages;
  do_alike(group_, [&] { prepare_compute(*prepared); });
  if (issue_ == Issue::graph) capture(*prepared);
  return keep(std::move(prepared));
}

void CudaExecutor::write(PlanHandle plan, const View& view, std::span<const float> packed) {
  write_values(prepared_.at(plan)->storage(), view, packed, compute_);
}

void CudaExecutor::read(PlanHandle plan, const View& view, std::span<float> packed) {
  read_values(prepared_.at(plan)->storage(), view, packed, compute_);
}

void CudaExecutor::poison(PlanHandle plan) {
  const DeviceStorage& storage = prepared_.at(plan)->storage();
  for (std::size_t i = 0; i < storage.size(); ++i) {
    if (i < is_weight_.size() && is_weight_[i]) continue;
    const auto id = static_cast<TensorId>(i);
    // All bits set is a NaN in every dtype.
    CFB_CUDA(cudaMemsetAsync(storage.data(id), 0xff,
                             static_cast<std::size_t>(storage.tensor(id).bytes()), compute_));
  }
  CFB_CUDA(cudaStreamSynchronize(compute_));
}

void CudaExecutor::run(PlanHandle plan, Mode mode, std::span<Timeline> timelines) {
  Prepared& prepared = *prepared_.at(plan);
  if (timelines.empty() || (mode == Mode::isolated && timelines.size() != 1)) {
    throw std::invalid_argument(fmt::format("{} iterations cannot run at once", timelines.size()));
  }
  if (issue_ == Issue::graph && mode == Mode::steady) {
    throw Unsupported("a graph replays isolated iterations only: --mode isolated");
  }
  while (prepared.stamps.size() < timelines.size()) {
    prepared.stamps.emplace_back(prepared.runs, issue_);
  }
  for (Timeline& timeline : timelines) {
    timeline.rank = prepared.program.plan().rank;
    timeline.spans.assign(prepared.program.spans().begin(), prepared.program.spans().end());
  }

  group_.barrier();
  const Epoch first = prepared.next;
  const std::int64_t start_ns = monotonic_ns();
  CFB_CUDA(cudaEventRecord(origin_, compute_));
  issue(prepared, timelines.size());
  issue_ns_ = (monotonic_ns() - start_ns) / static_cast<std::int64_t>(timelines.size());
  std::int64_t end_ns = start_ns;
  for (std::size_t i = 0; i < timelines.size(); ++i) {
    wait_until_done(prepared, i, first + i);
    timelines[i].start_ns = end_ns;
    prepared.stamps[i].read(prepared.program, origin_, start_ns, timelines[i]);
    end_ns = timelines[i].end_ns = std::max(end_ns, timelines[i].end_ns);
  }
}

void CudaExecutor::issue(Prepared& prepared, std::size_t iterations) {
  if (prepared.graph) return prepared.graph->launch(compute_);
  for (std::size_t i = 0; i < iterations; ++i) {
    enqueue_iteration(prepared, {prepared.next++, i == 0}, i);
  }
}

std::vector<TracedIteration> CudaExecutor::trace(PlanHandle plan, std::int32_t iterations) {
  if (issue_ == Issue::graph) return {};
  // A rank that lacks CUPTI takes part in no traced iteration: then none does.
  if (group_.max(tracing_.tracer == nullptr ? 1 : 0) > 0) return {};
  Prepared& prepared = *prepared_.at(plan);
  TraceRun run_traced(group_, *tracing_.tracer, tracing_.one_process, prepared.plan,
                      prepared.channel.get(), kernels_, prepared.storage(), compute_);
  const auto once = [&] {
    std::vector<Timeline> timelines(1);
    run(plan, Mode::isolated, timelines);
    return timelines.front();
  };
  run_traced.iteration(once);  // CUPTI sets up what it needs
  std::vector<TracedIteration> traced;
  for (std::int32_t i = 0; i < iterations; ++i) traced.push_back(run_traced.iteration(once));
  return traced;
}

std::map<std::string, std::string> CudaExecutor::facts() const {
  std::map<std::string, std::string> facts = transport_->facts();
  const bool attends = std::ranges::any_of(prepared_, [](const auto& prepared) {
    return std::ranges::any_of(prepared->program.plan().ops, [](const Op& op) {
      return std::holds_alternative<Attention>(op.work) ||
             std::holds_alternative<AttentionGradient>(op.work);
    });
  });
  if (attends) {
    facts["attention"] = "batched gemms and one softmax kernel; its share of the peak is not known";
  }
  return facts;
}

// How gemms fill the device is what a schedule pays for cutting them.
std::map<std::string, std::string> CudaExecutor::plan_facts(PlanHandle plan) const {
  const Prepared& prepared = *prepared_.at(plan);
  std::optional<float> fewest;
  float most = 0;
  for (const EventId id : prepared.program.compute_lane()) {
    const auto op = prepared.program.compute(id);
    if (!op || !std::holds_alternative<Gemm>(*op)) continue;
    const float waves = kernels_.waves(*op, prepared.storage());
    fewest = std::min(fewest.value_or(waves), waves);
    most = std::max(most, waves);
  }
  if (!fewest) return {};
  return {{"gemm_waves", fmt::format("{:.2f} to {:.2f}", *fewest, most)}};
}

void CudaExecutor::enqueue_iteration(Prepared& prepared, Turn turn, std::size_t iteration) {
  const auto range = prepared.plan.marks.around_iteration();
  const std::span<const EventId> lane = prepared.program.compute_lane();
  ComputeStamps& stamps = prepared.stamps[iteration];
  std::size_t run = 0;
  std::size_t place = 0;  // in the compute lane
  for (OpId op = 0; op < prepared.program.plan().ops.size(); ++op) {
    if (place == lane.size() || lane[place] != op) {
      prepared.channel->enqueue(op, turn, compute_);
      continue;
    }
    const ComputeRun& current = prepared.runs[run];
    if (prepared.channel) prepared.channel->wait_for_dependencies(compute_, op, turn);
    if (place == current.first) stamps.run_begins(run, compute_);
    enqueue_op(prepared, op, turn);
    prepared.plan.compute_events.completed(op, compute_);
    if (++place == current.first + current.count) stamps.run_ended(run++, compute_);
  }
  CFB_CUDA(cudaEventRecord(prepared.compute_end, compute_));
  CFB_CUDA(cudaStreamWaitEvent(end_, prepared.compute_end, cudaEventWaitDefault));
  if (prepared.channel) prepared.channel->wait_for_all(end_, turn.epoch);
  stamps.iteration_ended(end_);
}

void CudaExecutor::enqueue_op(Prepared& prepared, OpId op, Turn turn) {
  if (const auto compute = prepared.program.compute(op)) {
    const auto range = prepared.plan.marks.around(op);
    kernels_.run(*compute, prepared.storage());
  } else {
    prepared.channel->enqueue(op, turn, compute_);
  }
}

void CudaExecutor::wait_until_done(Prepared& prepared, std::size_t iteration, Epoch epoch) {
  if (prepared.graph) poll(prepared, prepared.graph->finished(), epoch);
  const ComputeStamps& stamps = prepared.stamps[iteration];
  const std::span<const EventId> lane = prepared.program.compute_lane();
  for (std::size_t i = 0; i < prepared.runs.size(); ++i) {
    poll(prepared, stamps.end_of(i), epoch);
    const ComputeRun& run = prepared.runs[i];
    if (watchdog_ != nullptr) watchdog_->progress(lane[run.first + run.count - 1]);
  }
  poll(prepared, stamps.end(), epoch);
}

// Polled, not synchronised, so that an error of the communication is noticed while the device waits
// for a peer that will not come; the watchdog ends a wait that leads nowhere.
void CudaExecutor::poll(Prepared& prepared, cudaEvent_t event, Epoch epoch) {
  for (;;) {
    const cudaError_t state = cudaEventQuery(event);
    if (state == cudaSuccess) return;
    if (state != cudaErrorNotReady) CFB_CUDA(state);
    cudaGetLastError();  // the next launch would find "not ready" and take it for its own
    if (!prepared.channel) continue;
    prepared.channel->check();
    if (watchdog_ != nullptr && watchdog_->asks()) {
      watchdog_->answer(prepared.channel->pending(epoch));
    }
  }
}

}  // namespace commfuse

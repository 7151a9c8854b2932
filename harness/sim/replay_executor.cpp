// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/replay_executor.h"

#include <stdexcept>
#include <utility>

#include "harness/plan_spans.h"
#include "harness/sim/plan_exchange.h"
#include "harness/sim/simulation.h"
#include "harness/world/wire.h"
#include "impls/transform.h"

namespace commfuse {
namespace {

/// A plan on whose turn a rank does nothing.
Plan without_ops(Plan quiet) {
  quiet.ops.clear();
  quiet.dependencies.clear();
  quiet.outputs.clear();
  return quiet;
}

/// Times of the compute ops of a plan, in order -> of all of its ops.
std::vector<Picoseconds> by_op(const Plan& plan, std::span<const Picoseconds> of_compute) {
  std::vector<Picoseconds> times(plan.ops.size(), 0);
  std::size_t next = 0;
  for (OpId id = 0; id < plan.ops.size(); ++id) {
    if (compute_of(plan.ops[id])) times[id] = of_compute[next++];
  }
  return times;
}

}  // namespace

/// A plan, or its twin without communication.
struct ReplayExecutor::Half {
  PlanHandle inner = 0;
  std::vector<Plan> plans;    // of all ranks; on rank 0
  std::vector<Span> untimed;  // of this rank
  bool took_times = false;    // since they were measured
};

struct ReplayExecutor::Pair {
  Half run, quiet;
  PlanHandle idle = 0;                          // of the inner executor; where ranks take turns
  std::vector<std::vector<Picoseconds>> times;  // by rank, of its compute ops; on rank 0
  bool measured = false;
  std::uint64_t executed = 0;  // with which data
};

ReplayExecutor::ReplayExecutor(World& group, World& active, std::unique_ptr<Executor> inner,
                               OpTiming timing, Protocol protocol)
    : group_(group),
      active_(active),
      inner_(std::move(inner)),
      timing_(timing),
      protocol_(protocol) {
  inner_->set_link({});
}

ReplayExecutor::~ReplayExecutor() = default;

ReplayExecutor::Half& ReplayExecutor::half_of(PlanHandle plan) const {
  Pair& pair = pair_of(plan);
  return handles_.at(plan).quiet ? pair.quiet : pair.run;
}

void ReplayExecutor::prepare_half(Half& half, std::vector<Plan> plans, const Plan& mine) const {
  half.plans = std::move(plans);
  half.untimed = untimed_spans(mine);
}

PlanHandle ReplayExecutor::prepare(const Plan& plan) {
  const Plan quiet = without_communication(plan);
  auto pair = std::make_unique<Pair>();
  pair->run.inner = inner_->prepare(plan);
  pair->quiet.inner = inner_->prepare_quiet(quiet, pair->run.inner);
  if (timing_ == OpTiming::in_turn) {
    pair->idle = inner_->prepare_quiet(without_ops(quiet), pair->run.inner);
  }
  std::vector<Plan> plans = gather_plans(group_, plan);
  std::vector<Plan> quiet_plans;
  for (const Plan& theirs : plans) quiet_plans.push_back(without_communication(theirs));
  prepare_half(pair->run, std::move(plans), plan);
  prepare_half(pair->quiet, std::move(quiet_plans), quiet);
  pairs_.push_back(std::move(pair));
  handles_.push_back({pairs_.size() - 1, false});
  return handles_.size() - 1;
}

PlanHandle ReplayExecutor::prepare_quiet(const Plan& plan, PlanHandle origin) {
  const Pair& pair = pair_of(origin);
  if (handles_[origin].quiet || plan.communicates || plan.ops.size() != pair.quiet.untimed.size()) {
    throw std::invalid_argument("this is not the plan that was prepared, without communication");
  }
  handles_.push_back({handles_[origin].pair, true});
  return handles_.size() - 1;
}

void ReplayExecutor::write(PlanHandle plan, const View& view, std::span<const float> packed) {
  inner_->write(half_of(plan).inner, view, packed);
  ++data_;
}

void ReplayExecutor::read(PlanHandle plan, const View& view, std::span<float> packed) {
  inner_->read(half_of(plan).inner, view, packed);
}

void ReplayExecutor::poison(PlanHandle plan) {
  inner_->poison(half_of(plan).inner);
  ++data_;
}

void ReplayExecutor::weights_written() {
  inner_->weights_written();
  ++data_;
}

/// By all ranks alike, though some may have nothing to write.
bool ReplayExecutor::data_is_new(const Pair& pair) const {
  return active_.max(pair.executed == data_ ? 0 : 1) > 0;
}

void ReplayExecutor::run(PlanHandle plan, Mode mode, std::span<Timeline> timelines) {
  if (mode != Mode::isolated || timelines.size() != 1) {
    throw std::invalid_argument("a replay is of one isolated iteration");
  }
  Pair& pair = pair_of(plan);
  Half& half = half_of(plan);
  const bool new_data = data_is_new(pair);
  // First, since the twin computes with what was received, and copies it even over inputs.
  if (new_data) execute(pair);
  if (new_data || half.took_times || !pair.measured) measure(pair);
  // Again, since what the twin leaves behind is no answer.
  if (new_data && !handles_[plan].quiet) execute(pair);
  half.took_times = true;
  replay(pair, half, timelines.front());
}

void ReplayExecutor::execute(Pair& pair) {
  std::vector<Timeline> untimed(1);
  inner_->run(pair.run.inner, Mode::isolated, untimed);
  pair.executed = data_;
}

std::vector<Picoseconds> ReplayExecutor::run_for_times(const Pair& pair) {
  std::vector<Timeline> timelines(1);
  if (timing_ == OpTiming::together) {
    inner_->run(pair.quiet.inner, Mode::isolated, timelines);
  } else {
    for (std::int32_t turn = 0; turn < active_.ranks(); ++turn) {
      active_.barrier();  // the rank before is done
      std::vector<Timeline> others(1);
      const bool mine = turn == active_.rank();
      inner_->run(mine ? pair.quiet.inner : pair.idle, Mode::isolated, mine ? timelines : others);
    }
  }
  std::vector<Picoseconds> times(pair.quiet.untimed.size(), 0);
  for (const Span& span : timelines.front().spans) times.at(span.op) = 1000 * compute_ns(span);
  return times;
}

void ReplayExecutor::measure(Pair& pair) {
  const std::vector<Picoseconds> mine = run_for_times(pair);
  pair.times.clear();
  for (const auto& theirs : group_.gather(std::as_bytes(std::span(mine)), 0)) {
    pair.times.push_back(values_of<Picoseconds>(theirs));
  }
  pair.measured = true;
  pair.run.took_times = pair.quiet.took_times = false;
}

/// By rank: how many spans, the end of the window, then begin and end of every span.
std::vector<std::int64_t> ReplayExecutor::simulate(const Pair& pair, const Half& half) const {
  Network network;
  network.inner = link_;
  network.algorithm = CollectiveAlgorithm::pairwise;
  Simulation simulation(network, protocol_);
  for (std::size_t rank = 0; rank < half.plans.size(); ++rank) {
    simulation.add(half.plans[rank], static_cast<std::int32_t>(rank),
                   by_op(half.plans[rank], pair.times[rank]));
  }
  simulation.run();
  std::vector<std::int64_t> flat;
  for (std::size_t rank = 0; rank < half.plans.size(); ++rank) {
    const Timeline timeline = simulation.timeline(rank);
    flat.push_back(static_cast<std::int64_t>(timeline.spans.size()));
    flat.push_back(timeline.end_ns);
    for (const Span& span : timeline.spans) {
      flat.push_back(span.begin_ns);
      flat.push_back(span.end_ns);
    }
  }
  return flat;
}

void ReplayExecutor::replay(const Pair& pair, const Half& half, Timeline& timeline) const {
  std::vector<std::int64_t> flat;
  if (group_.rank() == 0) flat = simulate(pair, half);
  flat = broadcast_values<std::int64_t>(group_, flat, 0);
  std::size_t at = 0;
  for (std::int32_t rank = 0; rank < group_.rank(); ++rank) {
    at += 2 + 2 * static_cast<std::size_t>(flat.at(at));
  }
  timeline.rank = group_.rank();
  timeline.start_ns = 0;
  timeline.end_ns = flat.at(at + 1);
  timeline.spans.assign(half.untimed.begin(), half.untimed.end());
  at += 2;
  for (Span& span : timeline.spans) {
    span.begin_ns = flat.at(at++);
    span.end_ns = flat.at(at++);
    if (computes(span)) span.cpu_ns = span.end_ns - span.begin_ns;
  }
}

std::map<std::string, std::string> ReplayExecutor::facts() const {
  std::map<std::string, std::string> facts = inner_->facts();
  facts["replay"] = name_of(protocol_);
  facts["op_times"] =
      timing_ == OpTiming::together
          ? "thread CPU time, all ranks at once; shared by a plan and its quiet run"
          : "stamps of the device, one rank at a time; shared by a plan and its quiet run";
  return facts;
}

std::map<std::string, std::string> ReplayExecutor::plan_facts(PlanHandle plan) const {
  return inner_->plan_facts(half_of(plan).inner);
}

}  // namespace commfuse

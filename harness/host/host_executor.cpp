// SPDX-License-Identifier: Apache-2.0
#include "harness/host/host_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <optional>
#include <stdexcept>
#include <utility>

#include "harness/world/clock.h"
#include "harness/world/watchdog.h"

namespace commfuse {
namespace {

std::int64_t thread_cpu_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

std::vector<bool> flags_of(std::span<const TensorId> ids, std::size_t tensors) {
  std::vector<bool> flags(tensors, false);
  for (const TensorId id : ids) flags.at(id) = true;
  return flags;
}

std::span<const Tensor> scratch_of(const Plan& plan) {
  return std::span(plan.tensors).subspan(plan.workload_tensors);
}

}  // namespace

struct HostExecutor::Prepared {
  explicit Prepared(const Plan& plan) : program(plan) {}

  const Storage& storage() const { return storages[program.plan().rank]; }

  Program program;
  std::shared_ptr<const TensorMemory> scratch;  // a quiet plan shares its origin's
  std::vector<Storage> storages;                // by rank
  std::vector<std::optional<Compute>> compute;  // by position in the program's compute lane
  std::unique_ptr<Channel> channel;             // null if nothing is communicated
  Epoch next = 1;
};

HostExecutor::HostExecutor(World& group, std::span<const Tensor> tensors,
                           std::span<const TensorId> weights, std::unique_ptr<Transport> transport)
    : group_(group),
      transport_(std::move(transport)),
      tensors_(tensors.begin(), tensors.end()),
      weights_(weights.begin(), weights.end()),
      is_weight_(flags_of(weights, tensors.size())),
      memory_(group, tensors,
              [this](std::size_t i) { return transport_->shares_memory() && !is_weight_[i]; }) {
  weights_written();  // before any prepare(), so that kernels set no other workspace aside
}

HostExecutor::~HostExecutor() = default;

void HostExecutor::require_layout(const Plan& plan) const {
  require_plan_of(plan, group_.rank(), group_.ranks(), tensors_.size());
  if (!transport_->shares_memory()) return;
  for (const Message& message : plan.messages) {
    if (message.view.tensor < is_weight_.size() && is_weight_[message.view.tensor]) {
      throw std::invalid_argument(fmt::format("{} is constant and cannot be communicated",
                                              plan.tensors[message.view.tensor].name));
    }
  }
}

std::vector<Storage> HostExecutor::storages_of(const Plan& plan,
                                               const TensorMemory& scratch) const {
  std::vector<Storage> storages;
  for (std::int32_t rank = 0; rank < plan.ranks; ++rank) {
    std::vector<std::byte*> blocks;
    for (std::size_t i = 0; i < tensors_.size(); ++i) blocks.push_back(memory_.block(i, rank));
    for (std::size_t i = 0; i < scratch_of(plan).size(); ++i) {
      blocks.push_back(scratch.block(i, rank));
    }
    storages.emplace_back(plan.tensors, std::move(blocks));
  }
  return storages;
}

void HostExecutor::prepare_compute(Prepared& prepared) {
  const Program& program = prepared.program;
  for (const EventId id : program.compute_lane()) {
    prepared.compute.push_back(program.compute(id));
    if (prepared.compute.back()) kernels_.prepare(*prepared.compute.back(), prepared.storage());
  }
}

void HostExecutor::require_equal_scratch(const Plan& plan) const {
  std::uint64_t sizes = 0;
  for (const Tensor& tensor : scratch_of(plan)) {
    sizes = sizes * 31 + static_cast<std::uint64_t>(tensor.bytes());
  }
  const auto digest = static_cast<double>(sizes % (std::uint64_t{1} << 52));
  if (group_.max(digest) != -group_.max(-digest)) {
    throw std::runtime_error("the plans of the ranks differ in their scratch");
  }
}

PlanHandle HostExecutor::prepare(const Plan& plan) {
  require_layout(plan);
  require_default_collectives(plan);
  auto prepared = std::make_unique<Prepared>(plan);
  const bool shared = prepared->program.communicates() && transport_->shares_memory();
  if (shared) require_equal_scratch(plan);
  prepared->scratch = std::make_shared<const TensorMemory>(group_, scratch_of(plan),
                                                           [=](std::size_t) { return shared; });
  prepared->storages = storages_of(plan, *prepared->scratch);
  prepare_compute(*prepared);
  if (prepared->program.communicates()) {
    prepared->channel = transport_->open(prepared->program, prepared->storages);
  }
  prepared_.push_back(std::move(prepared));
  return prepared_.size() - 1;
}

PlanHandle HostExecutor::prepare_quiet(const Plan& plan, PlanHandle origin) {
  require_layout(plan);
  auto prepared = std::make_unique<Prepared>(plan);
  if (prepared->program.communicates()) {
    throw std::invalid_argument("a quiet plan has no communication");
  }
  prepared->scratch = prepared_.at(origin)->scratch;
  prepared->storages = prepared_.at(origin)->storages;
  prepare_compute(*prepared);
  prepared_.push_back(std::move(prepared));
  return prepared_.size() - 1;
}

void HostExecutor::write(PlanHandle plan, const View& view, std::span<const float> packed) {
  prepared_.at(plan)->storage().write(view, packed);
}

void HostExecutor::read(PlanHandle plan, const View& view, std::span<float> packed) {
  prepared_.at(plan)->storage().read(view, packed);
}

void HostExecutor::poison(PlanHandle plan) {
  const Storage& storage = prepared_.at(plan)->storage();
  for (std::size_t i = 0; i < storage.size(); ++i) {
    if (i < is_weight_.size() && is_weight_[i]) continue;
    storage.poison(static_cast<TensorId>(i));
  }
}

void HostExecutor::weights_written() {
  std::vector<std::byte*> blocks;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    blocks.push_back(memory_.block(i, group_.rank()));
  }
  kernels_.expand_weights(weights_, Storage(tensors_, std::move(blocks)));
}

void HostExecutor::run(PlanHandle plan, Mode mode, std::span<Timeline> timelines) {
  Prepared& prepared = *prepared_.at(plan);
  if (timelines.empty() || (mode == Mode::isolated && timelines.size() != 1)) {
    throw std::invalid_argument(fmt::format("{} iterations cannot run at once", timelines.size()));
  }
  for (Timeline& timeline : timelines) {
    timeline.rank = prepared.program.plan().rank;
    timeline.spans.assign(prepared.program.spans().begin(), prepared.program.spans().end());
  }

  group_.barrier();
  const Run run{prepared.next, monotonic_ns(), timelines};
  prepared.next += timelines.size();
  if (prepared.channel) prepared.channel->begin(run);
  std::int64_t turn_ns = run.start_ns;
  for (Epoch epoch = run.first; epoch <= run.last(); ++epoch) {
    turn_ns = run_iteration(prepared, epoch, run, turn_ns);
  }
  if (prepared.channel) prepared.channel->finish();

  std::int64_t end_ns = run.start_ns;
  for (Timeline& timeline : timelines) {
    timeline.start_ns = end_ns;
    for (const Span& span : timeline.spans) end_ns = std::max(end_ns, span.end_ns);
    timeline.end_ns = end_ns;
  }
}

std::int64_t HostExecutor::wait_for_dependencies(Prepared& prepared, EventId event, Epoch epoch,
                                                 bool first) {
  std::int64_t done_ns = 0;
  for (const EventId before : prepared.program.dependencies(event)) {
    done_ns = std::max(done_ns, prepared.channel->wait(before, epoch));
  }
  if (first) return done_ns;
  for (const EventId before : prepared.program.earlier_iteration(event)) {
    done_ns = std::max(done_ns, prepared.channel->wait(before, epoch - 1));
  }
  return done_ns;
}

std::int64_t HostExecutor::run_iteration(Prepared& prepared, Epoch epoch, const Run& run,
                                         std::int64_t turn_ns) {
  const std::span<const EventId> lane = prepared.program.compute_lane();
  for (std::size_t i = 0; i < lane.size(); ++i) {
    const Event& event = prepared.program.event(lane[i]);
    const std::int64_t done_ns =
        wait_for_dependencies(prepared, lane[i], epoch, epoch == run.first);
    if (!prepared.compute[i]) {
      turn_ns = prepared.channel->collective(lane[i], epoch, std::max(turn_ns, done_ns));
    } else {
      Span& span = run.span(epoch, event);
      span.begin_ns = monotonic_ns();
      const std::int64_t cpu_begin_ns = thread_cpu_ns();
      kernels_.run(*prepared.compute[i], prepared.storage());
      span.cpu_ns = thread_cpu_ns() - cpu_begin_ns;
      span.end_ns = turn_ns = monotonic_ns();
      if (prepared.channel) {
        prepared.channel->completed(lane[i], epoch, span.begin_ns, span.end_ns);
      }
    }
    if (watchdog_ != nullptr) watchdog_->progress(event.op);
  }
  return turn_ns;
}

}  // namespace commfuse

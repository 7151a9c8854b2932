// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <utility>

#include "impls/dependency_finder.h"
#include "impls/due_before.h"
#include "impls/plan.h"

namespace commfuse {
namespace {

Work work_of(const Compute& op) {
  return std::visit([](const auto& work) { return Work{work}; }, op);
}

/// What the op adds to, of dk and dv, which are written together, dk.
std::optional<View> own_addend(const Compute& op) {
  if (const auto* gemm = std::get_if<Gemm>(&op); gemm && gemm->c == gemm->d) return gemm->d;
  if (const auto* gradient = std::get_if<GammaGradient>(&op); gradient && gradient->adds) {
    return gradient->d;
  }
  if (const auto* gradient = std::get_if<AttentionGradient>(&op); gradient && gradient->adds) {
    return gradient->dk;
  }
  return std::nullopt;
}

Compute without_addend(Compute op) {
  if (auto* gemm = std::get_if<Gemm>(&op)) gemm->c.reset();
  if (auto* gradient = std::get_if<GammaGradient>(&op)) gradient->adds = false;
  if (auto* gradient = std::get_if<AttentionGradient>(&op)) gradient->adds = false;
  return op;
}

std::vector<Access> touched_by(const Compute& op) {
  std::vector<Access> touched;
  for (const View& view : reads(op)) touched.push_back({view, false});
  for (const View& view : writes(op)) touched.push_back({view, true});
  return touched;
}

std::vector<Access> touched_by(std::span<const PlanBuilder::Transfer> transfers) {
  std::vector<Access> touched;
  for (const PlanBuilder::Transfer& each : transfers) touched.push_back({each.view, !each.send});
  return touched;
}

}  // namespace

PlanBuilder::PlanBuilder(const Workload& workload, std::int32_t rank)
    : finder_(std::make_unique<DependencyFinder>(workload.tensors)),
      sequences_(static_cast<std::size_t>(workload.ranks) * kLanes * 2) {
  plan_.rank = rank;
  plan_.ranks = workload.ranks;
  plan_.tensors = workload.tensors;
  plan_.workload_tensors = workload.tensors.size();
}

PlanBuilder::~PlanBuilder() = default;

std::int32_t PlanBuilder::rank() const { return plan_.rank; }
std::int32_t PlanBuilder::ranks() const { return plan_.ranks; }
const Tensor& PlanBuilder::tensor(TensorId id) const { return plan_.tensors.at(id); }

void PlanBuilder::begin_stage(std::size_t index) {
  // Transfers older than the last stage have had the compute of a whole stage.
  std::size_t end = 0;
  DueBefore due;
  for (std::size_t i = 0; i < deferred_.size(); ++i) {
    const auto* group = std::get_if<Transfers>(&deferred_[i].op);
    if (group == nullptr || deferred_[i].stage + std::size_t{1} >= index) continue;
    due.follows_on(group->lane);
    end = i + 1;
  }
  append_deferred(due, end);
  stage_ = static_cast<std::uint16_t>(index);
}

TensorId PlanBuilder::scratch(std::string_view name, std::int32_t rows, std::int32_t cols,
                              DType dtype) {
  plan_.tensors.push_back({std::string(name), rows, cols, dtype});
  finder_->add(plan_.tensors.back());
  return static_cast<TensorId>(plan_.tensors.size() - 1);
}

void PlanBuilder::compute(const Compute& op) {
  require_inside(reads(op));
  require_inside(writes(op));
  DueBefore due;
  due.touches(touched_by(op));
  append_deferred(due, deferred_.size());
  append(op);
}

void PlanBuilder::compute(std::span<const Compute> ops) {
  for (const Compute& op : ops) compute(op);
}

void PlanBuilder::compute_later(const Compute& op) {
  require_inside(reads(op));
  require_inside(writes(op));
  deferred_.push_back({op, stage_, touched_by(op)});
}

void PlanBuilder::exchange(Lane lane, std::span<const Transfer> transfers) {
  for (const Transfer& transfer : transfers) require_inside(transfer.view);
  if (transfers.empty()) return;
  DueBefore due;
  due.follows_on(lane);
  due.touches(touched_by(transfers));
  append_deferred(due, deferred_.size());
  append(Transfers{lane, {transfers.begin(), transfers.end()}});
}

void PlanBuilder::exchange_later(Lane lane, std::span<const Transfer> transfers) {
  for (const Transfer& transfer : transfers) require_inside(transfer.view);
  if (transfers.empty()) return;
  deferred_.push_back(
      {Transfers{lane, {transfers.begin(), transfers.end()}}, stage_, touched_by(transfers)});
}

void PlanBuilder::collective(Lane lane, const Collective& collective) {
  require_inside(collective.send);
  require_inside(collective.receive);
  DueBefore due;
  due.follows_on(lane);
  due.touches(std::array{Access{collective.send, false}, Access{collective.receive, true}});
  append_deferred(due, deferred_.size());
  append(collective, lane);
}

std::vector<std::int32_t> PlanBuilder::arrivals(TensorId tensor) const {
  std::vector<std::int32_t> peers;
  for (const Message& message : plan_.messages) {
    if (message.send || message.view.tensor != tensor) continue;
    if (std::ranges::find(peers, message.peer) == peers.end()) peers.push_back(message.peer);
  }
  return peers;
}

Plan PlanBuilder::take(std::vector<View> inputs, std::vector<View> outputs) {
  append_all(std::exchange(deferred_, {}));
  plan_.inputs = std::move(inputs);
  plan_.outputs = std::move(outputs);
  finder_ = std::make_unique<DependencyFinder>(std::span<const Tensor>{});
  return std::exchange(plan_, Plan{});
}

void PlanBuilder::append_all(std::span<const Deferred> deferred) {
  const std::uint16_t now = stage_;
  for (const Deferred& each : deferred) {
    stage_ = each.stage;
    std::visit([this](const auto& work) { append(work); }, each.op);
  }
  stage_ = now;
}

/// Of the first `end` deferred ops.
void PlanBuilder::append_deferred(DueBefore due, std::size_t end) {
  std::vector<bool> is_due(deferred_.size());
  for (std::size_t i = end; i-- > 0;) {
    const Deferred& deferred = deferred_[i];
    is_due[i] = due.includes(deferred.lane(), deferred.touched);
    if (!is_due[i]) continue;
    due.touches(deferred.touched);
    if (deferred.lane() != Lane::compute) due.follows_on(deferred.lane());
  }
  if (std::ranges::find(is_due, true) == is_due.end()) return;
  std::vector<Deferred> taken;
  std::vector<Deferred> kept;
  for (std::size_t i = 0; i < deferred_.size(); ++i) {
    (is_due[i] ? taken : kept).push_back(std::move(deferred_[i]));
  }
  deferred_ = std::move(kept);
  append_all(taken);
}

void PlanBuilder::append(const Compute& op) {
  const std::optional<View> addend = own_addend(op);
  const bool first = addend && finder_->undefined(*addend);
  append(work_of(first ? without_addend(op) : op), Lane::compute);
}

void PlanBuilder::append(const Transfers& group) {
  const Exchange exchange{static_cast<MessageId>(plan_.messages.size()),
                          static_cast<std::uint32_t>(group.transfers.size())};
  for (const Transfer& transfer : group.transfers) {
    const std::size_t peer = static_cast<std::size_t>(transfer.peer) * kLanes;
    const std::size_t channel = (peer + index_of(group.lane)) * 2 + transfer.send;
    Message message;
    message.send = transfer.send;
    message.peer = transfer.peer;
    message.view = transfer.view;
    message.logical_bytes =
        transfer.view.elements() * bytes_of(plan_.tensors[transfer.view.tensor].dtype);
    message.wire_bytes = message.logical_bytes;
    message.sequence = sequences_.at(channel)++;
    plan_.messages.push_back(message);
  }
  append(exchange, group.lane);
}

void PlanBuilder::append(Work work, Lane lane) {
  const auto id = static_cast<OpId>(plan_.ops.size());
  auto position = static_cast<std::uint32_t>(plan_.dependencies.size());
  plan_.ops.push_back({work, lane, stage_, position, 0});
  const std::span<const Requirement> required = finder_->next(plan_, id);
  plan_.ops.back().dependencies = static_cast<std::uint32_t>(required.size());
  for (const Requirement& requirement : required) plan_.dependencies.push_back(requirement.on);

  const auto* exchange = std::get_if<Exchange>(&work);
  if (exchange == nullptr) return;
  auto next = required.begin();
  for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
    Message& message = plan_.messages[m];
    message.first_dependency = position;
    for (; next != required.end() && next->message == m; ++next) ++position;
    message.dependencies = position - message.first_dependency;
  }
}

void PlanBuilder::require_inside(std::span<const View> views) const {
  for (const View& view : views) require_inside(view);
}

void PlanBuilder::require_inside(const View& view) const {
  if (!inside(view, plan_.tensors)) {
    throw std::out_of_range(fmt::format("tensor {}, rows from {}, columns from {}: a view outside",
                                        view.tensor, view.row, view.col));
  }
}

}  // namespace commfuse

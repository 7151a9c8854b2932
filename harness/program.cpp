// SPDX-License-Identifier: Apache-2.0
#include "harness/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "harness/executor.h"
#include "harness/plan_spans.h"

namespace commfuse {
namespace {

struct EventAccess {
  EventId event = 0;
  View view;
  bool write = false;
};

bool conflict(const EventAccess& a, const EventAccess& b) {
  return (a.write || b.write) && overlap(a.view, b.view);
}

void sort_unique(std::vector<EventId>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

}  // namespace

void require_plan_of(const Plan& plan, std::int32_t rank, std::int32_t ranks, std::size_t tensors) {
  if (plan.rank != rank || plan.ranks != ranks) {
    throw std::invalid_argument(fmt::format("plan of rank {} of {} given to rank {} of {}",
                                            plan.rank, plan.ranks, rank, ranks));
  }
  if (plan.workload_tensors != tensors) {
    throw std::invalid_argument(fmt::format("plan over {} tensors given to an executor of {}",
                                            plan.workload_tensors, tensors));
  }
}

std::string refusal_of(CollectiveVia via) {
  if (via == CollectiveVia::standard) return "";
  return fmt::format("collective={} belongs to transport nccl", name_of(via));
}

void require_default_collectives(const Plan& plan) {
  for (const Op& op : plan.ops) {
    const auto* collective = std::get_if<Collective>(&op.work);
    if (collective == nullptr) continue;
    if (const std::string reason = refusal_of(collective->via); !reason.empty()) {
      throw Unsupported(reason);
    }
  }
}

Program::Program(const Plan& plan) : plan_(plan) {
  add_events();
  add_spans();
  add_dependencies();
  add_earlier_iteration();
  mark_feeds();
}

std::span<const EventId> Program::dependencies(EventId id) const {
  return std::span(edges_).subspan(dependencies_[id].first, dependencies_[id].count);
}

std::span<const EventId> Program::earlier_iteration(EventId id) const {
  return std::span(edges_).subspan(earlier_iteration_[id].first, earlier_iteration_[id].count);
}

void Program::add_events() {
  events_.resize(plan_.ops.size() + plan_.messages.size());
  for (OpId op = 0; op < plan_.ops.size(); ++op) {
    const Lane lane = plan_.ops[op].lane;
    auto& lane_transfers = transfers_[static_cast<std::size_t>(lane)];
    if (const auto* exchange = std::get_if<Exchange>(&plan_.ops[op].work)) {
      for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
        const auto id = static_cast<EventId>(plan_.ops.size() + m);
        events_[id] = {plan_.messages[m].send ? EventKind::send : EventKind::receive, lane, op, m};
        lane_transfers.push_back(id);
      }
    } else {
      const bool collective = std::holds_alternative<Collective>(plan_.ops[op].work);
      events_[op] = {collective ? EventKind::collective : EventKind::compute, lane, op};
      if (collective) lane_transfers.push_back(op);
      if (lane == Lane::compute) compute_lane_.push_back(op);
    }
  }
  communicates_ = std::any_of(transfers_.begin(), transfers_.end(),
                              [](const auto& events) { return !events.empty(); });
}

void Program::add_spans() {
  spans_ = untimed_spans(plan_);
  std::uint32_t next = 0;
  for (Event& event : events_) {
    if (event.kind != EventKind::none) event.span = next++;
  }
}

bool Program::on_compute_lane(EventId id) const {
  const Event& event = events_[id];
  return event.lane == Lane::compute &&
         (event.kind == EventKind::compute || event.kind == EventKind::collective);
}

std::vector<EventId> Program::events_of(std::span<const Dependency> dependencies) const {
  std::vector<EventId> ids;
  for (const Dependency& dependency : dependencies) {
    const auto* exchange = std::get_if<Exchange>(&plan_.ops[dependency.op].work);
    if (exchange == nullptr) {
      ids.push_back(dependency.op);
    } else if (dependency.message != kWholeOp) {
      ids.push_back(static_cast<EventId>(plan_.ops.size() + dependency.message));
    } else {
      for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
        ids.push_back(static_cast<EventId>(plan_.ops.size() + m));
      }
    }
  }
  return ids;
}

Program::Range Program::append(std::span<const EventId> ids) {
  const Range range{static_cast<std::uint32_t>(edges_.size()),
                    static_cast<std::uint32_t>(ids.size())};
  edges_.insert(edges_.end(), ids.begin(), ids.end());
  return range;
}

void Program::add_dependencies() {
  dependencies_.resize(events_.size());
  std::optional<EventId> last_compute;
  for (OpId op = 0; op < plan_.ops.size(); ++op) {
    if (const auto* exchange = std::get_if<Exchange>(&plan_.ops[op].work)) {
      for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
        auto ids = events_of(plan_.dependencies_of(plan_.messages[m]));
        // An exchange on the compute lane starts when the lane has come to it.
        if (plan_.ops[op].lane == Lane::compute && last_compute) ids.push_back(*last_compute);
        sort_unique(ids);
        dependencies_[plan_.ops.size() + m] = append(ids);
      }
      continue;
    }
    auto ids = events_of(plan_.dependencies_of(plan_.ops[op]));
    sort_unique(ids);
    if (on_compute_lane(op)) {
      std::erase_if(ids, [this](EventId id) { return on_compute_lane(id); });
      last_compute = op;
    }
    dependencies_[op] = append(ids);
  }
}

std::vector<std::vector<EventId>> Program::conflicts_with_later() const {
  std::vector<std::vector<EventAccess>> by_tensor(plan_.tensors.size());
  for (OpId op = 0; op < plan_.ops.size(); ++op) {
    for (const Access& access : accesses(plan_, plan_.ops[op])) {
      const auto id = access.message == kWholeOp
                          ? EventId{op}
                          : static_cast<EventId>(plan_.ops.size() + access.message);
      by_tensor[access.view.tensor].push_back({id, access.view, access.write});
    }
  }
  std::vector<std::vector<EventId>> conflicts(events_.size());
  for (const auto& all : by_tensor) {
    for (const EventAccess& transfer : all) {
      if (on_compute_lane(transfer.event)) continue;  // that lane orders its own events
      for (const EventAccess& other : all) {
        if (!conflict(transfer, other)) continue;
        const OpId op = events_[transfer.event].op;
        const OpId other_op = events_[other.event].op;
        if (other_op >= op) conflicts[transfer.event].push_back(other.event);
        if (other_op < op && on_compute_lane(other.event)) {
          conflicts[other.event].push_back(transfer.event);
        }
      }
    }
  }
  for (auto& ids : conflicts) sort_unique(ids);
  return conflicts;
}

/// Leaves what is not implied by the rest, and adds the transfer itself where that is not.
void Program::reduce_for_transfer(EventId id, std::vector<EventId>& ids) const {
  const bool self_implied = std::any_of(ids.begin(), ids.end(), [&](EventId other) {
    const auto before = dependencies(other);
    return std::find(before.begin(), before.end(), id) != before.end();
  });
  // Of several events of the compute lane the last one implies the others.
  const auto compute_end = std::partition(ids.begin(), ids.end(),
                                          [this](EventId other) { return on_compute_lane(other); });
  if (compute_end != ids.begin()) {
    const EventId last = *std::max_element(ids.begin(), compute_end);
    ids.erase(ids.begin(), compute_end);
    ids.push_back(last);
  }
  std::erase(ids, id);
  if (!self_implied) ids.push_back(id);
}

void Program::add_earlier_iteration() {
  auto earlier = conflicts_with_later();
  std::vector<bool> awaited(events_.size(), false);  // by an earlier event of the compute lane
  earlier_iteration_.resize(events_.size());
  for (EventId id = 0; id < events_.size(); ++id) {
    if (events_[id].kind == EventKind::none) continue;
    auto& ids = earlier[id];
    if (on_compute_lane(id)) {
      std::erase_if(ids, [&](EventId other) { return awaited[other]; });
      for (const EventId other : ids) awaited[other] = true;
    } else {
      reduce_for_transfer(id, ids);
    }
    earlier_iteration_[id] = append(ids);
  }
}

void Program::mark_feeds() {
  for (const auto& lane : transfers_) {
    for (const EventId id : lane) {
      if (on_compute_lane(id)) continue;  // the rank's thread waits for what it needs
      for (const EventId before : dependencies(id)) events_[before].feeds_transport = true;
      for (const EventId before : earlier_iteration(id)) {
        events_[before].feeds_next_transport = true;
      }
    }
  }
}

}  // namespace commfuse

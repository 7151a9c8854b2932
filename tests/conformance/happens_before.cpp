// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/happens_before.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "impls/explain.h"

namespace commfuse {

std::string hazard(std::span<const Plan> plans) {
  for (const bool grouped : {true, false}) {
    const HappensBefore order(plans, grouped);
    if (std::string found = order.deadlock(); !found.empty()) return found;
    if (std::string found = order.race(); !found.empty()) return found;
  }
  return "";
}

/// Whose turn is over when the next one of a lane starts.
struct HappensBefore::Lanes {
  struct Turn {
    std::optional<Event> done;                      // of the latest compute op or collective
    std::array<std::optional<Event>, 2> transfers;  // starts of the latest send and receive since
  };
  std::array<Turn, kLanes> turns;

  Turn& of(Lane lane) { return turns[static_cast<std::size_t>(lane)]; }
};

HappensBefore::HappensBefore(std::span<const Plan> plans, bool grouped) : plans_(plans) {
  for (const Plan& plan : plans_) add_plan(plan, grouped);
  match_messages();
  match_collectives();
  close();
}

HappensBefore::Event HappensBefore::new_event() {
  after_.emplace_back();
  return static_cast<Event>(after_.size() - 1);
}

void HappensBefore::add_plan(const Plan& plan, bool grouped) {
  // All events first: a damaged plan may wait for a later op.
  std::vector<Interval>& ops = ops_.emplace_back();
  for (const Op& op : plan.ops) {
    const bool exchanges = std::holds_alternative<Exchange>(op.work);
    ops.push_back(exchanges ? Interval{} : Interval{new_event(), new_event()});
  }
  std::vector<Interval>& messages = messages_.emplace_back(plan.messages.size());
  for (const Op& op : plan.ops) {
    const auto* exchange = std::get_if<Exchange>(&op.work);
    if (exchange == nullptr) continue;
    const Event together = grouped ? new_event() : 0;
    for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
      messages[m] = {grouped ? together : new_event(), new_event()};
    }
  }
  Lanes lanes;
  for (OpId id = 0; id < plan.ops.size(); ++id) {
    if (std::holds_alternative<Exchange>(plan.ops[id].work)) {
      add_exchange(plan, id, grouped, lanes);
    } else {
      add_op(plan, id, lanes);
    }
  }
}

void HappensBefore::wait(std::size_t rank, const Plan& plan,
                         std::span<const Dependency> dependencies, Event event) {
  for (const Dependency& dependency : dependencies) {
    const auto* exchange = std::get_if<Exchange>(&plan.ops[dependency.op].work);
    if (dependency.message != kWholeOp) {
      edge(messages_[rank][dependency.message].end, event);
    } else if (exchange == nullptr) {
      edge(ops_[rank][dependency.op].end, event);
    } else {
      for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
        edge(messages_[rank][m].end, event);
      }
    }
  }
}

void HappensBefore::add_op(const Plan& plan, OpId id, Lanes& lanes) {
  const auto rank = static_cast<std::size_t>(plan.rank);
  const Interval& interval = ops_[rank][id];
  edge(interval.begin, interval.end);
  wait(rank, plan, plan.dependencies_of(plan.ops[id]), interval.begin);
  Lanes::Turn& turn = lanes.of(plan.ops[id].lane);
  if (turn.done) edge(*turn.done, interval.begin);
  for (std::optional<Event>& transfer : turn.transfers) {
    if (transfer) edge(*transfer, interval.begin);
    transfer.reset();
  }
  turn.done = interval.end;
  for (const Access& access : accesses(plan, plan.ops[id])) {
    uses_.push_back({plan.rank, id, access.view, access.write, interval.begin, interval.end});
  }
}

void HappensBefore::add_exchange(const Plan& plan, OpId id, bool grouped, Lanes& lanes) {
  const auto rank = static_cast<std::size_t>(plan.rank);
  const Op& op = plan.ops[id];
  const auto& exchange = std::get<Exchange>(op.work);
  Lanes::Turn& turn = lanes.of(op.lane);
  for (MessageId m = exchange.first; m < exchange.first + exchange.count; ++m) {
    const Message& message = plan.messages[m];
    const Interval& interval = messages_[rank][m];
    edge(interval.begin, interval.end);
    uses_.push_back({plan.rank, id, message.view, !message.send, interval.begin, interval.end});
    if (grouped && m > exchange.first) continue;  // they start together
    wait(rank, plan, grouped ? plan.dependencies_of(op) : plan.dependencies_of(message),
         interval.begin);
    std::optional<Event>& previous = turn.transfers[!grouped && !message.send ? 1 : 0];
    if (previous) edge(*previous, interval.begin);
    if (!previous && turn.done) edge(*turn.done, interval.begin);
    previous = interval.begin;
  }
}

void HappensBefore::match_messages() {
  using Key = std::tuple<std::int32_t, std::int32_t, Lane, std::uint32_t>;
  std::map<Key, std::vector<Interval>> sides;
  for (const Plan& plan : plans_) {
    for (const Op& op : plan.ops) {
      const auto* exchange = std::get_if<Exchange>(&op.work);
      if (exchange == nullptr) continue;
      for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
        const Message& message = plan.messages[m];
        const Key key{message.send ? plan.rank : message.peer,
                      message.send ? message.peer : plan.rank, op.lane, message.sequence};
        sides[key].push_back(messages_[static_cast<std::size_t>(plan.rank)][m]);
      }
    }
  }
  for (const auto& [key, pair] : sides) {
    if (pair.size() != 2) {
      unmatched_ = fmt::format("message {} from rank {} to rank {} has no partner",
                               std::get<3>(key), std::get<0>(key), std::get<1>(key));
      continue;
    }
    edge(pair[0].begin, pair[1].end);
    edge(pair[1].begin, pair[0].end);
  }
}

void HappensBefore::match_collectives() {
  std::map<std::pair<Lane, std::size_t>, std::vector<Interval>> meetings;
  for (const Plan& plan : plans_) {
    std::array<std::size_t, kLanes> count{};
    for (OpId id = 0; id < plan.ops.size(); ++id) {
      if (!std::holds_alternative<Collective>(plan.ops[id].work)) continue;
      const Lane lane = plan.ops[id].lane;
      const std::size_t number = count[static_cast<std::size_t>(lane)]++;
      meetings[{lane, number}].push_back(ops_[static_cast<std::size_t>(plan.rank)][id]);
    }
  }
  for (const auto& [key, members] : meetings) {
    if (members.size() != plans_.size()) {
      unmatched_ = fmt::format("collective {} is not on all ranks", key.second);
    }
    for (const Interval& one : members) {
      for (const Interval& other : members) edge(one.begin, other.end);
    }
  }
}

void HappensBefore::close() {
  std::vector<std::uint32_t> open(after_.size(), 0);
  for (const std::vector<Event>& successors : after_) {
    for (const Event event : successors) ++open[event];
  }
  std::vector<Event> order;
  for (Event event = 0; event < after_.size(); ++event) {
    if (open[event] == 0) order.push_back(event);
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const Event event : after_[order[i]]) {
      if (--open[event] == 0) order.push_back(event);
    }
  }
  if (order.size() != after_.size()) return;
  reaches_.assign(after_.size(), std::vector<bool>(after_.size(), false));
  for (auto event = order.rbegin(); event != order.rend(); ++event) {
    std::vector<bool>& mine = reaches_[*event];
    for (const Event successor : after_[*event]) {
      mine[successor] = true;
      for (std::size_t i = 0; i < mine.size(); ++i) {
        if (reaches_[successor][i]) mine[i] = true;
      }
    }
  }
}

bool HappensBefore::ordered(const Use& a, const Use& b) const {
  const auto before = [&](Event first, Event second) {
    return first == second || reaches_[first][second];
  };
  return before(a.end, b.begin) || before(b.end, a.begin);
}

std::string HappensBefore::deadlock() const {
  if (!unmatched_.empty()) return unmatched_;
  return reaches_.empty() && !after_.empty() ? "the events wait for each other in a circle" : "";
}

std::string HappensBefore::race() const {
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    for (std::size_t j = i + 1; j < uses_.size() && uses_[j].rank == uses_[i].rank; ++j) {
      const Use& a = uses_[i];
      const Use& b = uses_[j];
      const bool same_act = a.op == b.op && a.end == b.end;  // an op reads before it writes
      if (same_act || !(a.write || b.write) || !overlap(a.view, b.view) || ordered(a, b)) continue;
      const Plan& plan = plans_[static_cast<std::size_t>(a.rank)];
      return fmt::format("nothing orders {} and {}", where(plan, a.op), where(plan, b.op));
    }
  }
  return "";
}

}  // namespace commfuse

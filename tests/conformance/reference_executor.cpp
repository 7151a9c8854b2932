// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/reference_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <tuple>

#include "impls/explain.h"
#include "tests/conformance/adversary.h"
#include "tests/conformance/reference_compute.h"

namespace commfuse {
namespace {

bool contains(const View& view, std::int32_t row, std::int32_t col) {
  for (std::int32_t s = 0; s < view.strips; ++s) {
    const std::int32_t r = row - view.row - s * view.row_step;
    const std::int32_t c = col - view.col - s * view.col_step;
    if (r >= 0 && r < view.rows && c >= 0 && c < view.cols) return true;
  }
  return false;
}

}  // namespace

bool ReferenceExecutor::starts_as_groups(std::uint64_t seed) {
  return ((seed ^ seed >> 2U) & 1U) == 0;
}

ReferenceExecutor::ReferenceExecutor(std::span<const Plan> plans) : plans_(plans) {
  for (const Plan& plan : plans_) {
    check_views(plan);
    add_ops(plan);
  }
  match_messages();
  match_collectives();
  grouped_ = order(true);
  single_ = order(false);
}

std::string ReferenceExecutor::name_of(std::uint32_t op) const {
  return where(plan_of(nodes_[op]), nodes_[op].id);
}

void ReferenceExecutor::check_views(const Plan& plan) const {
  for (OpId id = 0; id < plan.ops.size(); ++id) {
    for (const Access& access : accesses(plan, plan.ops[id])) {
      if (inside(access.view, plan.tensors)) continue;
      const Tensor& tensor = plan.tensors.at(access.view.tensor);
      throw ExecutionError(fmt::format("{}: {} lies outside its tensor of {} x {}", where(plan, id),
                                       describe(access.view, tensor), tensor.rows, tensor.cols));
    }
  }
}

void ReferenceExecutor::add_ops(const Plan& plan) {
  first_op_.push_back(static_cast<std::uint32_t>(nodes_.size()));
  first_message_.push_back(static_cast<std::uint32_t>(wires_.size()));
  wires_.resize(wires_.size() + plan.messages.size());
  for (OpId id = 0; id < plan.ops.size(); ++id) {
    Node node{.rank = plan.rank, .id = id};
    if (const auto* exchange = std::get_if<Exchange>(&plan.ops[id].work)) {
      node.first_wire = first_message_.back() + exchange->first;
      node.wires = exchange->count;
      for (std::uint32_t i = 0; i < exchange->count; ++i) {
        wires_[node.first_wire + i] = {.op = static_cast<std::uint32_t>(nodes_.size()),
                                       .id = exchange->first + i};
      }
    }
    nodes_.push_back(node);
  }
}

/// Lets the units of one lane of one rank take turns.
class ReferenceExecutor::LaneOrder {
 public:
  /// The newest unit of the order starts after the earlier ones of the lane.
  void append(Order& order, bool receives) {
    const auto unit = static_cast<std::uint32_t>(order.units.size() - 1);
    const bool exchanges = order.units[unit].wires > 0;
    std::uint32_t& previous = transfers_[receives ? 1 : 0];
    if (exchanges && previous != kNone) {
      follow(order, order.units[previous].after_start, unit);
    } else if (solid_ != kNone) {
      follow(order, order.units[solid_].after_done, unit);
    }
    if (exchanges) {
      previous = unit;
      return;
    }
    for (std::uint32_t& transfer : transfers_) {
      if (transfer != kNone) follow(order, order.units[transfer].after_start, unit);
      transfer = kNone;
    }
    solid_ = unit;
  }

 private:
  static void follow(Order& order, std::vector<std::uint32_t>& before, std::uint32_t unit) {
    before.push_back(unit);
    ++order.units[unit].waits;
  }

  std::uint32_t solid_ = kNone;                           // the latest compute op or collective
  std::array<std::uint32_t, 2> transfers_{kNone, kNone};  // the latest transfers since then
};

void ReferenceExecutor::add_unit(Order& order, const Unit& unit,
                                 std::span<const Dependency> dependencies) const {
  const auto index = static_cast<std::uint32_t>(order.units.size());
  Unit& added = order.units.emplace_back(unit);
  const auto rank = static_cast<std::size_t>(nodes_[unit.op].rank);
  const auto wait_for_message = [&](std::uint32_t wire) {
    order.after_message[wire].push_back(index);
    ++added.waits;
  };
  for (const Dependency& dependency : dependencies) {
    const std::uint32_t op = first_op_[rank] + dependency.op;
    if (dependency.message != kWholeOp) {
      wait_for_message(first_message_[rank] + dependency.message);
    } else if (nodes_[op].wires > 0) {
      for (std::uint32_t i = 0; i < nodes_[op].wires; ++i) {
        wait_for_message(nodes_[op].first_wire + i);
      }
    } else {
      order.waits_for_op.emplace_back(op, index);
      ++added.waits;
    }
  }
}

ReferenceExecutor::Order ReferenceExecutor::order(bool grouped) const {
  Order order;
  order.after_message.resize(wires_.size());
  for (const Plan& plan : plans_) {
    std::array<LaneOrder, kLanes> lanes;
    for (OpId id = 0; id < plan.ops.size(); ++id) {
      const std::uint32_t op = first_op_[static_cast<std::size_t>(plan.rank)] + id;
      const Node& node = nodes_[op];
      LaneOrder& lane = lanes[static_cast<std::size_t>(plan.ops[id].lane)];
      order.unit_of_op.push_back(static_cast<std::uint32_t>(order.units.size()));
      if (grouped || node.wires == 0) {
        add_unit(order,
                 {.op = op,
                  .first_wire = node.first_wire,
                  .wires = node.wires,
                  .after_start = {},
                  .after_done = {}},
                 plan.dependencies_of(plan.ops[id]));
        lane.append(order, false);
        continue;
      }
      for (std::uint32_t wire = node.first_wire; wire < node.first_wire + node.wires; ++wire) {
        const Message& message = message_of(wires_[wire]);
        add_unit(order,
                 {.op = op, .first_wire = wire, .wires = 1, .after_start = {}, .after_done = {}},
                 plan.dependencies_of(message));
        lane.append(order, !message.send);
      }
    }
  }
  for (const auto& [op, unit] : order.waits_for_op) {
    order.units[order.unit_of_op[op]].after_done.push_back(unit);
  }
  return order;
}

void ReferenceExecutor::match_messages() {
  using Key = std::tuple<std::int32_t, std::int32_t, Lane, std::uint32_t>;
  std::map<Key, std::uint32_t> sends;
  const auto key_of = [&](const Wire& wire) {
    const Node& node = nodes_[wire.op];
    const Message& message = message_of(wire);
    const std::int32_t from = message.send ? node.rank : message.peer;
    const std::int32_t to = message.send ? message.peer : node.rank;
    return Key{from, to, op_of(node).lane, message.sequence};
  };
  for (std::uint32_t i = 0; i < wires_.size(); ++i) {
    if (message_of(wires_[i]).send) sends.emplace(key_of(wires_[i]), i);
  }
  for (std::uint32_t i = 0; i < wires_.size(); ++i) {
    if (message_of(wires_[i]).send) continue;
    const auto found = sends.find(key_of(wires_[i]));
    if (found == sends.end()) continue;
    wires_[i].partner = found->second;
    wires_[found->second].partner = i;
    sends.erase(found);
  }
}

void ReferenceExecutor::match_collectives() {
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    std::vector<std::vector<std::uint32_t>> of_rank(plans_.size());
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      const Op& op = op_of(nodes_[i]);
      if (op.lane == static_cast<Lane>(lane) && std::holds_alternative<Collective>(op.work)) {
        of_rank[static_cast<std::size_t>(nodes_[i].rank)].push_back(i);
      }
    }
    const std::size_t most =
        std::ranges::max(of_rank, {}, &std::vector<std::uint32_t>::size).size();
    for (std::size_t nth = 0; nth < most; ++nth) {
      const auto group = static_cast<std::uint32_t>(collectives_.size());
      std::vector<std::uint32_t>& members = collectives_.emplace_back();
      for (const std::vector<std::uint32_t>& ops : of_rank) {
        if (nth >= ops.size()) continue;
        members.push_back(ops[nth]);
        nodes_[ops[nth]].collective = group;
      }
    }
  }
}

std::string ReferenceExecutor::last_writer(std::int32_t rank, TensorId tensor, std::int32_t row,
                                           std::int32_t col) const {
  std::optional<std::uint32_t> of_tensor;
  for (const Completed& done : std::views::reverse(log_)) {
    const Node& node = nodes_[done.op];
    if (node.rank != rank) continue;
    for (const Access& access : accesses(plan_of(node), op_of(node))) {
      if (!access.write || access.message != done.message || access.view.tensor != tensor) continue;
      if (contains(access.view, row, col)) return "last written by " + name_of(done.op);
      if (!of_tensor) of_tensor = done.op;
    }
  }
  if (!of_tensor) return "written by no op";
  return "written by no op; the last to write that tensor is " + name_of(*of_tensor);
}

/// The state of one iteration.
class ReferenceExecutor::Run {
 public:
  Run(ReferenceExecutor& executor, ReferenceMemory& memory, std::uint64_t seed)
      : executor_(executor),
        order_(starts_as_groups(seed) ? executor.grouped_ : executor.single_),
        memory_(memory),
        adversary_(seed),
        units_(order_.units.size()),
        sides_(executor.wires_.size()),
        meetings_(executor.collectives_.size()) {}

  void operator()() {
    for (std::uint32_t unit = 0; unit < units_.size(); ++unit) {
      units_[unit].waits = order_.units[unit].waits;
      if (units_[unit].waits == 0) offer_start(unit);
    }
    while (!adversary_.empty()) step(adversary_.take());
    const auto open = [](const auto& state) { return !state.done; };
    if (std::ranges::any_of(units_, open)) throw ExecutionError(deadlock());
  }

 private:
  struct UnitState {
    std::uint32_t waits = 0;
    std::uint32_t open_messages = 0;
    bool started = false;
    bool done = false;
  };
  struct Side {  // of a message
    std::uint32_t unit = 0;
    bool started = false;
    bool done = false;
    bool captured = false;       // sender
    std::vector<double> packed;  // sender: what travels
  };
  struct Meeting {  // a collective
    std::size_t started = 0;
    std::vector<std::vector<double>> packed;  // of each rank; empty until captured
  };

  void offer(Runnable::Kind kind, std::uint32_t index, std::uint32_t op) {
    const Node& node = executor_.nodes_[op];
    adversary_.add({kind, index, node.rank, executor_.op_of(node).lane});
  }
  void offer_start(std::uint32_t unit) {
    offer(Runnable::Kind::start, unit, order_.units[unit].op);
  }

  void step(const Runnable& runnable) {
    switch (runnable.kind) {
      case Runnable::Kind::start:
        return start(runnable.index);
      case Runnable::Kind::finish_message:
        return finish_message(runnable.index);
      case Runnable::Kind::finish_collective:
        return finish_collective(runnable.index);
    }
  }

  void start(std::uint32_t index) {
    const Unit& unit = order_.units[index];
    units_[index].started = true;
    release(unit.after_start);
    if (unit.wires > 0) {
      units_[index].open_messages = unit.wires;
      for (std::uint32_t i = 0; i < unit.wires; ++i) start_message(unit.first_wire + i, index);
    } else if (executor_.nodes_[unit.op].collective != kNone) {
      start_collective(unit.op);
    } else {
      compute(unit.op);
      finish(index);
    }
  }

  void compute(std::uint32_t op) {
    const Node& node = executor_.nodes_[op];
    try {
      run_compute(compute_of(executor_.op_of(node)).value(), node.rank, memory_);
    } catch (const std::invalid_argument& error) {
      throw ExecutionError(fmt::format("{}: {}", executor_.name_of(op), error.what()));
    }
    executor_.log_.push_back({op, kWholeOp});
  }

  void start_message(std::uint32_t index, std::uint32_t unit) {
    const Wire& wire = executor_.wires_[index];
    sides_[index].unit = unit;
    sides_[index].started = true;
    if (executor_.message_of(wire).send && adversary_.flip()) capture(index);
    if (wire.partner == kNone || !sides_[wire.partner].started) return;
    require_equal_sizes(index, wire.partner);
    offer(Runnable::Kind::finish_message, index, wire.op);
    offer(Runnable::Kind::finish_message, wire.partner, executor_.wires_[wire.partner].op);
  }

  void require_equal_sizes(std::uint32_t one, std::uint32_t other) const {
    const bool one_sends = executor_.message_of(executor_.wires_[one]).send;
    const Wire& sender = executor_.wires_[one_sends ? one : other];
    const Wire& receiver = executor_.wires_[one_sends ? other : one];
    const Message& sent = executor_.message_of(sender);
    const Message& received = executor_.message_of(receiver);
    if (sent.view.elements() == received.view.elements() &&
        sent.logical_bytes == received.logical_bytes) {
      return;
    }
    throw ExecutionError(fmt::format("{} receives {} bytes into {}, but {} sends {} bytes",
                                     executor_.name_of(receiver.op), received.logical_bytes,
                                     view_text(receiver.op, received.view),
                                     executor_.name_of(sender.op), sent.logical_bytes));
  }

  [[nodiscard]] std::string view_text(std::uint32_t op, const View& view) const {
    return describe(view, memory_.tensor(executor_.nodes_[op].rank, view.tensor));
  }

  void capture(std::uint32_t index) {
    const Wire& wire = executor_.wires_[index];
    sides_[index].packed =
        memory_.read(executor_.nodes_[wire.op].rank, executor_.message_of(wire).view);
    sides_[index].captured = true;
  }

  void finish_message(std::uint32_t index) {
    const Wire& wire = executor_.wires_[index];
    const Message& message = executor_.message_of(wire);
    const std::uint32_t sender = message.send ? index : wire.partner;
    if (!sides_[sender].captured) capture(sender);
    if (!message.send) {
      memory_.write(executor_.nodes_[wire.op].rank, message.view, sides_[sender].packed);
      executor_.log_.push_back({wire.op, wire.id});
    }
    sides_[index].done = true;
    release(order_.after_message[index]);
    const std::uint32_t unit = sides_[index].unit;
    if (--units_[unit].open_messages == 0) finish(unit);
  }

  [[nodiscard]] const Collective& collective(std::uint32_t op) const {
    return std::get<Collective>(executor_.op_of(executor_.nodes_[op]).work);
  }

  void start_collective(std::uint32_t op) {
    const std::uint32_t group = executor_.nodes_[op].collective;
    Meeting& meeting = meetings_[group];
    meeting.packed.resize(executor_.plans_.size());
    if (adversary_.flip()) capture_collective(group, op);
    if (++meeting.started != executor_.plans_.size()) return;
    const std::vector<std::uint32_t>& members = executor_.collectives_[group];
    for (const std::uint32_t member : members) {
      require_one_collective(members.front(), member);
      offer(Runnable::Kind::finish_collective, order_.unit_of_op[member], member);
    }
  }

  void require_one_collective(std::uint32_t first, std::uint32_t other) const {
    const Collective& a = collective(first);
    const Collective& b = collective(other);
    if (a.kind == b.kind && a.send.elements() == b.send.elements() && sizes_fit(b)) return;
    throw ExecutionError(fmt::format("{} does not fit {}, with which it meets: {} to {}",
                                     executor_.name_of(other), executor_.name_of(first),
                                     view_text(other, b.send), view_text(other, b.receive)));
  }

  [[nodiscard]] bool sizes_fit(const Collective& collective) const {
    const std::int64_t ranks = std::ssize(executor_.plans_);
    const std::int64_t sent = collective.send.elements();
    const std::int64_t received = collective.receive.elements();
    switch (collective.kind) {
      case CollectiveKind::all_gather:
        return sent * ranks == received;
      case CollectiveKind::reduce_scatter:
        return sent == received * ranks;
      case CollectiveKind::all_to_all:
        return sent == received && sent % ranks == 0;
      case CollectiveKind::all_reduce:
        return sent == received;
    }
    return false;
  }

  void capture_collective(std::uint32_t group, std::uint32_t op) {
    const std::int32_t rank = executor_.nodes_[op].rank;
    std::vector<double>& packed = meetings_[group].packed[static_cast<std::size_t>(rank)];
    if (packed.empty()) packed = memory_.read(rank, collective(op).send);
  }

  void finish_collective(std::uint32_t unit) {
    const std::uint32_t op = order_.units[unit].op;
    const Node& node = executor_.nodes_[op];
    for (const std::uint32_t member : executor_.collectives_[node.collective]) {
      capture_collective(node.collective, member);
    }
    memory_.write(node.rank, collective(op).receive,
                  outcome(collective(op).kind, meetings_[node.collective], node.rank));
    executor_.log_.push_back({op, kWholeOp});
    finish(unit);
  }

  static std::vector<double> outcome(CollectiveKind kind, const Meeting& meeting,
                                     std::int32_t rank) {
    const std::size_t whole = meeting.packed.front().size();
    const std::size_t block = whole / meeting.packed.size();
    const std::size_t own = static_cast<std::size_t>(rank) * block;
    switch (kind) {
      case CollectiveKind::all_gather:
        return joined(meeting, 0, whole);
      case CollectiveKind::all_to_all:
        return joined(meeting, own, block);
      case CollectiveKind::reduce_scatter:
        return summed(meeting, own, block);
      case CollectiveKind::all_reduce:
        return summed(meeting, 0, whole);
    }
    return {};
  }

  /// Elements [first, first + count) of every rank, one rank after the other.
  static std::vector<double> joined(const Meeting& meeting, std::size_t first, std::size_t count) {
    std::vector<double> result;
    for (const std::vector<double>& packed : meeting.packed) {
      const std::span<const double> part = std::span(packed).subspan(first, count);
      result.insert(result.end(), part.begin(), part.end());
    }
    return result;
  }

  static std::vector<double> summed(const Meeting& meeting, std::size_t first, std::size_t count) {
    std::vector<double> result(count, 0.0);
    for (const std::vector<double>& packed : meeting.packed) {
      for (std::size_t i = 0; i < count; ++i) result[i] += packed[first + i];
    }
    return result;
  }

  void finish(std::uint32_t unit) {
    units_[unit].done = true;
    release(order_.units[unit].after_done);
  }
  void release(const std::vector<std::uint32_t>& units) {
    for (const std::uint32_t unit : units) {
      if (--units_[unit].waits == 0) offer_start(unit);
    }
  }

  /// Every transfer that has started and cannot complete, and the first unit of every lane that
  /// cannot start, with what each waits for.
  [[nodiscard]] std::string deadlock() const {
    std::string text = "deadlock:";
    for (std::uint32_t i = 0; i < sides_.size(); ++i) {
      if (sides_[i].started && !sides_[i].done) text += blocked_message(i);
    }
    std::set<std::pair<std::int32_t, Lane>> seen;
    for (std::uint32_t unit = 0; unit < units_.size(); ++unit) {
      const std::uint32_t op = order_.units[unit].op;
      const Node& node = executor_.nodes_[op];
      if (units_[unit].started) {
        if (node.collective == kNone || units_[unit].done) continue;
        text += fmt::format("\n  {} waits for the other ranks", executor_.name_of(op));
      } else if (seen.emplace(node.rank, executor_.op_of(node).lane).second) {
        text += fmt::format("\n  {} waits for {}", executor_.name_of(op), missing(node));
      }
    }
    return text;
  }

  [[nodiscard]] std::string blocked_message(std::uint32_t index) const {
    const Wire& wire = executor_.wires_[index];
    const Message& message = executor_.message_of(wire);
    return fmt::format("\n  {}: {} {} rank {} waits for {}", executor_.name_of(wire.op),
                       view_text(wire.op, message.view), message.send ? "to" : "from", message.peer,
                       wire.partner == kNone
                           ? "a partner that does not exist"
                           : executor_.name_of(executor_.wires_[wire.partner].op));
  }

  /// The dependencies of an op that are not done.
  [[nodiscard]] std::string missing(const Node& node) const {
    const Plan& plan = executor_.plan_of(node);
    std::string text;
    for (const Dependency& dependency : plan.dependencies_of(plan.ops[node.id])) {
      if (is_done(static_cast<std::size_t>(node.rank), dependency)) continue;
      text += fmt::format("{}op {}", text.empty() ? "" : ", ", dependency.op);
    }
    return text.empty() ? "its turn" : text;
  }

  [[nodiscard]] bool is_done(std::size_t rank, const Dependency& dependency) const {
    if (dependency.message != kWholeOp) {
      return sides_[executor_.first_message_[rank] + dependency.message].done;
    }
    const std::uint32_t op = executor_.first_op_[rank] + dependency.op;
    const Node& node = executor_.nodes_[op];
    if (node.wires == 0) return units_[order_.unit_of_op[op]].done;
    return std::all_of(sides_.begin() + node.first_wire,
                       sides_.begin() + node.first_wire + node.wires,
                       [](const Side& side) { return side.done; });
  }

  ReferenceExecutor& executor_;
  const Order& order_;
  ReferenceMemory& memory_;
  Adversary adversary_;
  std::vector<UnitState> units_;
  std::vector<Side> sides_;
  std::vector<Meeting> meetings_;
};

void ReferenceExecutor::run(ReferenceMemory& memory, std::uint64_t seed) {
  log_.clear();
  Run(*this, memory, seed)();
}

}  // namespace commfuse

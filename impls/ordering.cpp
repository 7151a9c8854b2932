// SPDX-License-Identifier: Apache-2.0
// Finds again what every op must wait for, and requires the plan's dependencies to imply it. In a
// plan as PlanBuilder made it they are the same, which is quick to see; otherwise the dependencies
// are followed backwards.
#include <fmt/format.h>

#include <array>
#include <set>
#include <tuple>

#include "impls/checks.h"
#include "impls/dependency_finder.h"
#include "impls/explain.h"
#include "impls/verify.h"

namespace commfuse {
namespace {

constexpr OpId kNone = ~OpId{0};

bool is_exchange(const Op& op) { return std::holds_alternative<Exchange>(op.work); }

class Ordering {
 public:
  explicit Ordering(const Plan& plan) : plan_(plan), finder_(plan.tensors) {
    std::array<OpId, kLanes> latest;
    latest.fill(kNone);
    for (OpId id = 0; id < plan.ops.size(); ++id) {
      OpId& before = latest[static_cast<std::size_t>(plan.ops[id].lane)];
      lane_before_.push_back(before);
      before = id;
    }
    for (const View& view : plan.inputs) finder_.define(view);
  }

  void run() {
    for (OpId id = 0; id < plan_.ops.size(); ++id) {
      check_reads(id);
      check_waits(id, finder_.next(plan_, id));
    }
    for (const View& view : plan_.outputs) {
      if (const auto missing = finder_.undefined(view)) {
        throw PlanError(fmt::format("rank {}: nothing writes {} of output {}{}", plan_.rank,
                                    name(*missing), name(view), last_writer_of(view.tensor)));
      }
    }
  }

 private:
  void check_reads(OpId id) const {
    for (const Access& access : accesses(plan_, plan_.ops[id])) {
      if (access.write) continue;
      if (const auto missing = finder_.undefined(access.view)) {
        throw PlanError(fmt::format("{} reads {}, which nothing wrote before", where(plan_, id),
                                    name(*missing)));
      }
    }
  }

  void check_waits(OpId id, std::span<const Requirement> required) const {
    const Op& op = plan_.ops[id];
    MessageId message = kWholeOp;
    std::span<const Dependency> stored = plan_.dependencies_of(op);
    for (const Requirement& requirement : required) {
      if (requirement.message != message) {
        message = requirement.message;
        stored = plan_.dependencies_of(plan_.messages[message]);
      }
      // Both are in the same order; what does not line up is looked for.
      if (!stored.empty() && stored.front() == requirement.on) {
        stored = stored.subspan(1);
      } else if (!implied(id, requirement)) {
        fail(id, requirement);
      }
    }
  }

  /// The op after which the rest of a tensor is there: where to begin to look.
  [[nodiscard]] std::string last_writer_of(TensorId tensor) const {
    for (auto id = static_cast<OpId>(plan_.ops.size()); id-- > 0;) {
      for (const Access& access : accesses(plan_, plan_.ops[id])) {
        if (access.write && access.view.tensor == tensor) {
          return fmt::format("; the last to write that tensor is {}", where(plan_, id));
        }
      }
    }
    return "; no op writes that tensor";
  }

  /// A point on the way back: the start of an op (or of one message of it), or its completion.
  struct Point {
    OpId op = 0;
    MessageId message = kWholeOp;
    bool completed = false;
    friend bool operator<(const Point& a, const Point& b) {
      return std::tie(a.op, a.message, a.completed) < std::tie(b.op, b.message, b.completed);
    }
  };

  [[nodiscard]] bool implied(OpId id, const Requirement& requirement) const {
    const Dependency& target = requirement.on;
    std::set<Point> seen;
    std::vector<Point> open{{id, requirement.message, false}};
    while (!open.empty()) {
      const Point point = open.back();
      open.pop_back();
      if (point.completed && completes(point, target)) return true;
      for (const Point& before : points_before(point)) {
        if (before.op >= target.op && seen.insert(before).second) open.push_back(before);
      }
    }
    return false;
  }

  [[nodiscard]] bool completes(const Point& point, const Dependency& target) const {
    if (point.op == target.op) {
      return point.message == kWholeOp || point.message == target.message;
    }
    const Op& op = plan_.ops[point.op];
    return target.message == kWholeOp && !is_exchange(op) && !is_exchange(plan_.ops[target.op]) &&
           op.lane == plan_.ops[target.op].lane && point.op > target.op;
  }

  /// What has happened before an op or a message starts; it has started before it completes.
  [[nodiscard]] std::vector<Point> points_before(const Point& point) const {
    std::vector<Point> before;
    const Op& op = plan_.ops[point.op];
    const auto* exchange = std::get_if<Exchange>(&op.work);
    if (exchange != nullptr && point.message == kWholeOp) {
      for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
        before.push_back({point.op, m, point.completed});
      }
      return before;
    }
    const auto waits = exchange == nullptr ? plan_.dependencies_of(op)
                                           : plan_.dependencies_of(plan_.messages[point.message]);
    for (const Dependency& on : waits) before.push_back({on.op, on.message, true});
    for (const bool send : {false, true}) {
      if (exchange == nullptr || plan_.messages[point.message].send == send) {
        add_turn_before(point.op, send, before);
      }
    }
    return before;
  }

  /// Whose turn in the lane comes before an op's or its messages' of one direction: messages start
  /// in the order of their direction, compute ops and collectives end before anything later starts.
  void add_turn_before(OpId id, bool send, std::vector<Point>& before) const {
    const std::size_t known = before.size();
    for (OpId earlier = lane_before_[id]; earlier != kNone && before.size() == known;
         earlier = lane_before_[earlier]) {
      const auto* exchange = std::get_if<Exchange>(&plan_.ops[earlier].work);
      if (exchange == nullptr) {
        before.push_back({earlier, kWholeOp, true});
        continue;
      }
      for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
        if (plan_.messages[m].send == send) before.push_back({earlier, m, false});
      }
    }
  }

  [[noreturn]] void fail(OpId id, const Requirement& requirement) const {
    const auto [message, on] = requirement;
    const std::string what =
        on.message == kWholeOp ? std::string{} : fmt::format(" message #{} of", on.message);
    throw PlanError(fmt::format("{} does not wait for{} {}, though both use {}", where(plan_, id),
                                what, where(plan_, on.op), shared(id, message, on)));
  }
  /// The view of op `id` that conflicts with what it should wait for.
  [[nodiscard]] std::string shared(OpId id, MessageId message, const Dependency& on) const {
    for (const Access& mine : accesses(plan_, plan_.ops[id])) {
      for (const Access& other : accesses(plan_, plan_.ops[on.op])) {
        const bool named = mine.message == message && other.message == on.message;
        if (named && (mine.write || other.write) && overlap(mine.view, other.view)) {
          return name(mine.view);
        }
      }
    }
    return "the same elements";
  }
  [[nodiscard]] std::string name(const View& view) const {
    return describe(view, plan_.tensors[view.tensor]);
  }

  const Plan& plan_;
  DependencyFinder finder_;
  std::vector<OpId> lane_before_;  // the op before on the same lane
};

}  // namespace

void check_ordering(const Plan& plan) { Ordering(plan).run(); }

}  // namespace commfuse

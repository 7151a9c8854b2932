// SPDX-License-Identifier: Apache-2.0
#include "impls/transform.h"

#include <algorithm>
#include <array>
#include <span>

namespace commfuse {
namespace {

/// By lane: 1 + the latest kept op that is done, 0 for none. Kept ops of a lane run one after the
/// other, so the latest stands for all before it.
using Done = std::array<OpId, kLanes>;

/// Walks a plan in order and knows which kept ops are done when an op, or a message, is done.
class Contraction {
 public:
  explicit Contraction(const Plan& plan)
      : plan_(plan), after_op_(plan.ops.size()), after_message_(plan.messages.size()) {}

  /// What is done when the lane comes to its next op.
  [[nodiscard]] const Done& reached(Lane lane) const { return lanes_[index_of(lane)]; }
  /// What is done when all of these are, besides what the lane has reached.
  [[nodiscard]] Done after(Lane lane, std::span<const Dependency> dependencies) const {
    Done done = lanes_[index_of(lane)];
    for (const Dependency& on : dependencies) {
      const Done& more = on.message == kWholeOp ? after_op_[on.op] : after_message_[on.message];
      for (std::size_t i = 0; i < kLanes; ++i) done[i] = std::max(done[i], more[i]);
    }
    return done;
  }
  void finish_message(Lane lane, MessageId id) {
    after_message_[id] = after(lane, plan_.dependencies_of(plan_.messages[id]));
  }
  void finish(OpId id, const Done& done) {
    after_op_[id] = done;
    lanes_[index_of(plan_.ops[id].lane)] = done;
  }

 private:
  const Plan& plan_;
  std::array<Done, kLanes> lanes_{};
  std::vector<Done> after_op_;
  std::vector<Done> after_message_;
};

/// Appends an op that depends on what is done before it on other lanes and not known on its own.
void keep(Plan& quiet, Op op, const Done& done, const Done& known) {
  op.first_dependency = static_cast<std::uint32_t>(quiet.dependencies.size());
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    if (lane != index_of(op.lane) && done[lane] > known[lane]) {
      quiet.dependencies.push_back({done[lane] - 1, kWholeOp});
    }
  }
  op.dependencies = static_cast<std::uint32_t>(quiet.dependencies.size()) - op.first_dependency;
  quiet.ops.push_back(op);
}

}  // namespace

Plan without_communication(const Plan& plan) {
  Plan quiet = plan;
  quiet.ops.clear();
  quiet.messages.clear();
  quiet.dependencies.clear();
  quiet.communicates = false;

  Contraction contraction(plan);
  for (OpId id = 0; id < plan.ops.size(); ++id) {
    const Op& op = plan.ops[id];
    Done done = contraction.after(op.lane, plan.dependencies_of(op));
    if (const auto* exchange = std::get_if<Exchange>(&op.work)) {
      for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
        contraction.finish_message(op.lane, m);
        if (!plan.messages[m].send) quiet.inputs.push_back(plan.messages[m].view);
      }
    } else if (const auto* collective = std::get_if<Collective>(&op.work)) {
      quiet.inputs.push_back(collective->receive);
    } else {
      keep(quiet, op, done, contraction.reached(op.lane));
      done[index_of(op.lane)] = static_cast<OpId>(quiet.ops.size());
    }
    contraction.finish(id, done);
  }
  return quiet;
}

}  // namespace commfuse

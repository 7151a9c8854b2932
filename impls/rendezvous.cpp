// SPDX-License-Identifier: Apache-2.0
// Runs the plans without time: an op starts when its dependencies are done and its lane's turn has
// come, a message is done when both of its sides have started, a collective when all ranks have.
// Joint exchanges are done, and let their lane go on, when the other sides of all their messages
// have started. Every lane waits for one thing at a time, so each event is looked at once per
// waiting lane.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "impls/checks.h"
#include "impls/explain.h"
#include "impls/verify.h"

namespace commfuse {
namespace {

struct LaneRef {
  std::size_t rank = 0;
  std::size_t lane = 0;
  friend bool operator==(const LaneRef&, const LaneRef&) = default;
};

/// Progress of one op or one message.
struct Progress {
  bool started = false;
  bool done = false;
  std::uint8_t waiting = 0;      // one bit per lane of the same rank
  std::uint32_t unfinished = 0;  // messages of an exchange
};

struct RankState {
  std::array<std::vector<OpId>, kLanes> lanes;
  std::array<std::size_t, kLanes> turn{};                 // the next op of each lane
  std::array<std::vector<std::size_t>, kLanes> arrivals;  // ranks at each collective; on rank 0
  std::array<std::size_t, kLanes> collectives{};          // started on each lane
  std::vector<Progress> ops;
  std::vector<Progress> messages;
};

class Rendezvous {
 public:
  Rendezvous(std::span<const Plan> plans, const Matching& matching, MessageCompletion completion)
      : plans_(plans),
        matching_(matching),
        joint_(completion == MessageCompletion::joint),
        ranks_(plans.size()) {
    for (std::size_t rank = 0; rank < plans.size(); ++rank) {
      const Plan& plan = plans[rank];
      RankState& state = ranks_[rank];
      state.ops.resize(plan.ops.size());
      state.messages.resize(plan.messages.size());
      for (OpId id = 0; id < plan.ops.size(); ++id) {
        state.lanes[static_cast<std::size_t>(plan.ops[id].lane)].push_back(id);
      }
      for (std::size_t lane = 0; lane < kLanes; ++lane) ready_.push_back({rank, lane});
    }
  }

  void run() {
    while (!ready_.empty()) {
      const LaneRef lane = ready_.back();
      ready_.pop_back();
      while (advance(lane)) {
      }
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        if (head({rank, lane})) fail({rank, lane});
      }
    }
  }

 private:
  [[nodiscard]] const OpId* head(LaneRef at) const {
    const RankState& state = ranks_[at.rank];
    const std::size_t turn = state.turn[at.lane];
    return turn < state.lanes[at.lane].size() ? &state.lanes[at.lane][turn] : nullptr;
  }
  Progress& progress(std::size_t rank, const Dependency& on) {
    RankState& state = ranks_[rank];
    return on.message == kWholeOp ? state.ops[on.op] : state.messages[on.message];
  }

  /// Starts the lane's next op if it can; whether the lane may go on.
  bool advance(LaneRef at) {
    const OpId* id = head(at);
    if (id == nullptr || ranks_[at.rank].ops[*id].started) return false;
    const Op& op = plans_[at.rank].ops[*id];
    for (const Dependency& on : plans_[at.rank].dependencies_of(op)) {
      Progress& needed = progress(at.rank, on);
      if (needed.done) continue;
      needed.waiting |= static_cast<std::uint8_t>(1U << at.lane);
      return false;
    }
    ranks_[at.rank].ops[*id].started = true;
    if (const auto* exchange = std::get_if<Exchange>(&op.work)) {
      start(at, *id, *exchange);
      return !joint_ || ranks_[at.rank].ops[*id].done;
    }
    if (std::holds_alternative<Collective>(op.work)) return arrive(at);
    finish(at.rank, ranks_[at.rank].ops[*id]);
    ++ranks_[at.rank].turn[at.lane];
    return true;
  }

  void start(LaneRef at, OpId id, const Exchange& exchange) {
    if (!joint_) ++ranks_[at.rank].turn[at.lane];
    ranks_[at.rank].ops[id].unfinished = exchange.count;
    for (MessageId m = exchange.first; m < exchange.first + exchange.count; ++m) {
      ranks_[at.rank].messages[m].started = true;
      const MessageRef partner = matching_.partners[at.rank][m];
      const auto peer = static_cast<std::size_t>(partner.rank);
      if (!ranks_[peer].messages[partner.id].started) continue;
      finish_message(at.rank, m);
      finish_message(peer, partner.id);
    }
  }

  void finish_message(std::size_t rank, MessageId id) {
    const OpId owner = matching_.owners[rank][id];
    Progress& exchange = ranks_[rank].ops[owner];
    if (!joint_) finish(rank, ranks_[rank].messages[id]);
    if (--exchange.unfinished > 0) return;
    if (joint_) finish_all_messages(rank, owner);
    finish(rank, exchange);
  }

  void finish_all_messages(std::size_t rank, OpId id) {
    const Op& op = plans_[rank].ops[id];
    const auto& exchange = std::get<Exchange>(op.work);
    for (MessageId m = exchange.first; m < exchange.first + exchange.count; ++m) {
      finish(rank, ranks_[rank].messages[m]);
    }
    const std::size_t lane = index_of(op.lane);
    ++ranks_[rank].turn[lane];
    ready_.push_back({rank, lane});
  }

  /// Whether all ranks have come to the lane's collective; then all lanes go on.
  bool arrive(LaneRef at) {
    std::vector<std::size_t>& arrivals = ranks_.front().arrivals[at.lane];
    const std::size_t number = ranks_[at.rank].collectives[at.lane]++;
    if (arrivals.size() <= number) arrivals.push_back(0);
    if (++arrivals[number] < ranks_.size()) return false;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const OpId id = *head({rank, at.lane});
      finish(rank, ranks_[rank].ops[id]);
      ++ranks_[rank].turn[at.lane];
      if (rank != at.rank) ready_.push_back({rank, at.lane});
    }
    return true;
  }

  void finish(std::size_t rank, Progress& finished) {
    finished.done = true;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      if ((finished.waiting >> lane & 1U) != 0) ready_.push_back({rank, lane});
    }
  }

  /// The lane that a stuck lane waits for: the one whose turn must come first.
  [[nodiscard]] LaneRef blocker(LaneRef at) const {
    const Plan& plan = plans_[at.rank];
    const RankState& state = ranks_[at.rank];
    const OpId id = *head(at);
    if (state.ops[id].started) {
      const auto* exchange = std::get_if<Exchange>(&plan.ops[id].work);
      return exchange != nullptr ? absent_from_exchange(at, *exchange) : absent_from_collective(at);
    }
    for (const Dependency& on : plan.dependencies_of(plan.ops[id])) {
      const Progress& needed =
          on.message == kWholeOp ? state.ops[on.op] : state.messages[on.message];
      if (needed.done) continue;
      const LaneRef owner{at.rank, static_cast<std::size_t>(plan.ops[on.op].lane)};
      const auto* exchange = std::get_if<Exchange>(&plan.ops[on.op].work);
      if (exchange == nullptr || !state.ops[on.op].started || joint_) return owner;
      MessageId pending = on.message;
      for (MessageId m = exchange->first; pending == kWholeOp; ++m) {
        if (!state.messages[m].done) pending = m;
      }
      return {static_cast<std::size_t>(matching_.partners[at.rank][pending].rank), owner.lane};
    }
    return at;
  }
  /// Of a joint exchange: where the other side of one of its messages has not started.
  [[nodiscard]] LaneRef absent_from_exchange(LaneRef at, const Exchange& exchange) const {
    MessageRef partner;
    for (MessageId m = exchange.first; m < exchange.first + exchange.count; ++m) {
      partner = matching_.partners[at.rank][m];
      if (!ranks_[static_cast<std::size_t>(partner.rank)].messages[partner.id].started) break;
    }
    return {static_cast<std::size_t>(partner.rank), at.lane};
  }
  [[nodiscard]] LaneRef absent_from_collective(LaneRef at) const {
    const std::size_t number = ranks_[at.rank].collectives[at.lane];
    const auto absent = std::find_if(ranks_.begin(), ranks_.end(), [&](const RankState& state) {
      return state.collectives[at.lane] < number;
    });
    return {static_cast<std::size_t>(absent - ranks_.begin()), at.lane};
  }

  [[noreturn]] void fail(LaneRef stuck) const {
    std::vector<LaneRef> chain;
    while (std::find(chain.begin(), chain.end(), stuck) == chain.end()) {
      chain.push_back(stuck);
      stuck = blocker(stuck);
    }
    // What leads into the circle only waits; the circle itself is the deadlock.
    chain.erase(chain.begin(), std::find(chain.begin(), chain.end(), stuck));
    std::string text = "deadlock: ";
    for (const LaneRef& lane : chain) {
      text += fmt::format("{} waits for ", where(plans_[lane.rank], *head(lane)));
    }
    throw PlanError(text + "itself");
  }

  std::span<const Plan> plans_;
  const Matching& matching_;
  bool joint_;
  std::vector<RankState> ranks_;
  std::vector<LaneRef> ready_;
};

}  // namespace

void check_progress(std::span<const Plan> plans, const Matching& matching,
                    MessageCompletion completion) {
  Rendezvous(plans, matching, completion).run();
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <compare>

#include "impls/checks.h"
#include "impls/explain.h"
#include "impls/verify.h"

namespace commfuse {
namespace {

/// What two sides of a transfer have in common.
struct Channel {
  std::int32_t source = 0;
  std::int32_t destination = 0;
  Lane lane = Lane::compute;
  std::uint32_t sequence = 0;
  friend auto operator<=>(const Channel&, const Channel&) = default;
};

struct Side {
  Channel channel;
  MessageRef message;
};

class Matcher {
 public:
  explicit Matcher(std::span<const Plan> plans) : plans_(plans) {
    for (const Plan& plan : plans) {
      matching_.partners.emplace_back(plan.messages.size());
      matching_.owners.emplace_back(plan.messages.size());
      collect(plan);
    }
  }

  Matching run() {
    const auto by_channel = [](const Side& a, const Side& b) { return a.channel < b.channel; };
    std::sort(sends_.begin(), sends_.end(), by_channel);
    std::sort(receives_.begin(), receives_.end(), by_channel);
    const std::size_t pairs = std::min(sends_.size(), receives_.size());
    for (std::size_t i = 0; i < pairs; ++i) pair(sends_[i], receives_[i]);
    if (sends_.size() > pairs) fail_unmatched(sends_[pairs]);
    if (receives_.size() > pairs) fail_unmatched(receives_[pairs]);
    return std::move(matching_);
  }

 private:
  void collect(const Plan& plan) {
    for (OpId id = 0; id < plan.ops.size(); ++id) {
      const Op& op = plan.ops[id];
      const auto* exchange = std::get_if<Exchange>(&op.work);
      if (exchange == nullptr) continue;
      for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
        const Message& message = plan.messages[m];
        matching_.owners.back()[m] = id;
        if (message.send) {
          sends_.push_back({{plan.rank, message.peer, op.lane, message.sequence}, {plan.rank, m}});
        } else {
          receives_.push_back(
              {{message.peer, plan.rank, op.lane, message.sequence}, {plan.rank, m}});
        }
      }
    }
  }

  void pair(const Side& send, const Side& receive) {
    if (send.channel < receive.channel) fail_unmatched(send);
    if (receive.channel < send.channel) fail_unmatched(receive);
    if (message(send).logical_bytes != message(receive).logical_bytes) fail_sizes(send, receive);
    matching_.partners[static_cast<std::size_t>(send.message.rank)][send.message.id] =
        receive.message;
    matching_.partners[static_cast<std::size_t>(receive.message.rank)][receive.message.id] =
        send.message;
  }

  [[nodiscard]] const Plan& plan(const Side& side) const {
    return plans_[static_cast<std::size_t>(side.message.rank)];
  }
  [[nodiscard]] const Message& message(const Side& side) const {
    return plan(side).messages[side.message.id];
  }
  [[nodiscard]] std::string place(const Side& side) const {
    return where(plan(side),
                 matching_.owners[static_cast<std::size_t>(side.message.rank)][side.message.id]);
  }
  [[nodiscard]] std::string view(const Side& side) const {
    const View& moved = message(side).view;
    return describe(moved, plan(side).tensors[moved.tensor]);
  }

  [[noreturn]] void fail_unmatched(const Side& side) const {
    const bool send = message(side).send;
    throw PlanError(fmt::format("{}: {} {} {} rank {}, which has no {} for it ({} lane, number {})",
                                place(side), send ? "sends" : "receives", view(side),
                                send ? "to" : "from", message(side).peer, send ? "receive" : "send",
                                name_of(side.channel.lane), side.channel.sequence));
  }
  [[noreturn]] void fail_sizes(const Side& send, const Side& receive) const {
    throw PlanError(fmt::format("{}: sends {} bytes of {}, but {} receives {} bytes into {}",
                                place(send), message(send).logical_bytes, view(send),
                                place(receive), message(receive).logical_bytes, view(receive)));
  }

  std::span<const Plan> plans_;
  Matching matching_;
  std::vector<Side> sends_, receives_;
};

std::vector<OpId> collectives_of(const Plan& plan, Lane lane) {
  std::vector<OpId> found;
  for (OpId id = 0; id < plan.ops.size(); ++id) {
    const Op& op = plan.ops[id];
    if (op.lane == lane && std::holds_alternative<Collective>(op.work)) found.push_back(id);
  }
  return found;
}

std::int64_t bytes_sent_of(const Plan& plan, OpId id) {
  const View& send = std::get<Collective>(plan.ops[id].work).send;
  return send.elements() * bytes_of(plan.tensors[send.tensor].dtype);
}

/// Collectives of a lane meet in order: they must be the same on every rank.
void check_collectives(const Plan& first, const Plan& other, Lane lane) {
  const std::vector<OpId> expected = collectives_of(first, lane);
  const std::vector<OpId> found = collectives_of(other, lane);
  for (std::size_t i = 0; i < std::max(expected.size(), found.size()); ++i) {
    if (i >= found.size() || i >= expected.size()) {
      const bool missing = i >= found.size();
      throw PlanError(fmt::format("{}: rank {} has no such collective on its {} lane",
                                  missing ? where(first, expected[i]) : where(other, found[i]),
                                  missing ? other.rank : first.rank, name_of(lane)));
    }
    const auto kind = std::get<Collective>(first.ops[expected[i]].work).kind;
    if (std::get<Collective>(other.ops[found[i]].work).kind != kind ||
        bytes_sent_of(first, expected[i]) != bytes_sent_of(other, found[i])) {
      throw PlanError(fmt::format("{} meets {}, which is another collective",
                                  where(first, expected[i]), where(other, found[i])));
    }
  }
}

}  // namespace

Matching match(std::span<const Plan> plans) {
  for (const Plan& plan : plans.subspan(1)) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      check_collectives(plans.front(), plan, static_cast<Lane>(lane));
    }
  }
  return Matcher(plans).run();
}

}  // namespace commfuse

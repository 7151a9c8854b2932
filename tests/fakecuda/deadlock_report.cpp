// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/deadlock_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace commfuse::fake {
namespace {

/// A queued operation, and how many of its stream are before it.
std::string queued(const MachineState& state, OpId id) {
  const std::deque<OpId>& ops = state.stream(state.ops[id].stream).ops;
  const auto before = std::ranges::find(ops, id) - ops.begin();
  return fmt::format("{}, {} before it", state.describe(id), before);
}

std::string writer(const MachineState& state, const Op& wait) {
  for (const Stream& stream : state.streams) {
    for (const OpId id : stream.ops) {
      const Op& op = state.ops[id];
      if (op.kind == Op::Kind::write_value && op.address == wait.address &&
          satisfies(op.value, wait.compare, wait.value)) {
        return queued(state, id);
      }
    }
  }
  return "nobody";
}

std::string value_reason(const MachineState& state, const Op& op) {
  return fmt::format("{} wanted {} {}, there {}, to be written by {}",
                     state.memory.describe(op.address),
                     op.compare == Compare::equal ? "==" : ">=", op.value, value_at(op.address),
                     writer(state, op));
}

std::string rendezvous_reason(const MachineState& state, const Op& op) {
  std::string reason;
  for (const Meeting& meeting : op.meetings) {
    const Gathering& gathering = state.gatherings.at(meeting.id);
    if (gathering.done) continue;
    reason += fmt::format("{}{}: {} of {} parties arrived", reason.empty() ? "" : "; ", meeting.id,
                          gathering.parties.size(), meeting.parties);
  }
  return reason;
}

std::string reason(const MachineState& state, const Op& op) {
  if (const auto other = state.held_up_by(op)) {
    return fmt::format("behind {} in its hardware queue", state.describe(*other));
  }
  switch (op.kind) {
    case Op::Kind::wait_value:
      return value_reason(state, op);
    case Op::Kind::wait_event:
      return fmt::format("recorded by {}", queued(state, *op.awaited));
    case Op::Kind::rendezvous:
      return rendezvous_reason(state, op);
    default:
      return "can run";
  }
}

std::string host_reason(const MachineState& state, const Host& host) {
  const auto open =
      std::ranges::find_if(host.waits_for, [&](OpId op) { return !state.ops[op].done; });
  if (open == host.waits_for.end()) return {};
  return fmt::format(", first for {}", queued(state, *open));
}

}  // namespace

std::string deadlock_report(const MachineState& state) {
  std::string text = "nothing can run";
  for (const Stream& stream : state.streams) {
    if (stream.ops.empty()) continue;
    const Op& op = state.ops[stream.ops.front()];
    fmt::format_to(std::back_inserter(text), "\n  {}: {}; {} behind it", state.describe(op.id),
                   reason(state, op), stream.ops.size() - 1);
  }
  for (const Host& host : state.hosts) {
    if (host.finished || state.ready(host)) continue;
    const std::string label = host.label.empty() ? "" : fmt::format(" ({})", host.label);
    fmt::format_to(std::back_inserter(text), "\n  rank {} host{}: in {}{}", host.rank, label,
                   host.waits_in, host_reason(state, host));
  }
  return text;
}

}  // namespace commfuse::fake

// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/machine_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace commfuse::fake {

std::uint32_t value_at(const std::byte* address) {
  std::uint32_t value = 0;
  std::memcpy(&value, address, sizeof value);
  return value;
}

MachineState::MachineState() : races([this](OpId op) { return describe(op); }) {}

bool MachineState::ready(const Op& op) const {
  switch (op.kind) {
    case Op::Kind::wait_event:
      return !op.awaited || ops[*op.awaited].done;
    case Op::Kind::wait_value:
      // A bad address and poison run, and are found then.
      return !op.backed || satisfies(value_at(op.address), op.compare, op.value) ||
             memory.is_poison({op.address, sizeof op.value});
    case Op::Kind::rendezvous:
      return !op.arrived || std::ranges::all_of(op.meetings, [&](const Meeting& meeting) {
        return gatherings.at(meeting.id).done;
      });
    default:
      return true;
  }
}

std::optional<OpId> MachineState::held_up_by(const Op& op) const {
  const std::optional<std::size_t>& queue = stream(op.stream).queue;
  if (!queue || queues[*queue].ops.front() == op.id) return std::nullopt;
  return queues[*queue].ops.front();
}

bool MachineState::ready(const Host& host) const {
  return !host.finished && host.barrier_of.empty() &&
         std::ranges::all_of(host.waits_for, [&](OpId op) { return ops[op].done; });
}

VectorClock MachineState::covered_by_all() const {
  std::optional<VectorClock> covered;
  const auto meet = [&](const VectorClock& clock) {
    if (covered) {
      covered->meet(clock);
    } else {
      covered = clock;
    }
  };
  for (const Host& host : hosts) {
    if (!host.finished) meet(host.clock);
  }
  for (const Stream& stream : streams) {
    if (stream.ops.empty()) continue;  // later operations cover what the host's clock covers
    VectorClock clock = stream.clock;
    clock.join(ops[stream.ops.front()].enqueued);
    meet(clock);
  }
  return covered.value_or(VectorClock{});
}

std::string MachineState::describe(OpId id) const {
  const Op& op = ops[id];
  const std::string place =
      op.kind == Op::Kind::host ? "host" : fmt::format("stream {}", stream(op.stream).name);
  const std::string label = op.label.empty() ? "" : fmt::format(" ({})", op.label);
  return fmt::format("rank {} {} {}{}", op.rank, place, op.name, label);
}

}  // namespace commfuse::fake

// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/op_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/fakecuda/verdict.h"

namespace commfuse::fake {
namespace {

/// Does `body`, and puts the name of the op before what is found.
template <class Body>
void blame(const MachineState& state, const Op& op, Body body) {
  try {
    body();
  } catch (const Finding& finding) {
    throw Finding(finding.kind(), fmt::format("{}: {}", state.describe(op.id), finding.what()));
  }
}

}  // namespace

OpRunner::Context OpRunner::begin(const Op& op) {
  const Stream& stream = state_.stream(op.stream);
  Context context;
  context.clock = stream.clock;
  context.clock.join(op.enqueued);
  context.moment = context.clock.advance(stream.actor);
  context.times.start_ns = std::max(stream.free_ns, op.issue_ns);
  if (stream.queue) {
    context.times.start_ns =
        std::max(context.times.start_ns, state_.queues[*stream.queue].start_ns);
  }
  context.times.end_ns = context.times.start_ns;
  return context;
}

void OpRunner::leave_queues(const Op& op, const OpTimes& times) {
  Stream& stream = state_.stream(op.stream);
  stream.ops.pop_front();
  stream.free_ns = times.end_ns;
  if (!stream.queue) return;
  HardwareQueue& queue = state_.queues[*stream.queue];
  queue.ops.pop_front();
  queue.start_ns = times.start_ns;
}

void OpRunner::finish(Op& op, Context& context) {
  leave_queues(op, context.times);
  Stream& stream = state_.stream(op.stream);
  stream.clock = context.clock;
  op.clock = std::move(context.clock);
  op.times = context.times;
  op.done = true;
  op.enqueued = {};
  op.work = {};
  state_.trace.push_back({op.id, op.rank, stream.name, op.name, op.times});
}

void OpRunner::run(Op& op) {
  if (op.kind == Op::Kind::rendezvous && !op.arrived) return arrive(op, begin(op));
  Context context = begin(op);
  switch (op.kind) {
    case Op::Kind::work:
      check_work(op, op.work, context.moment, context.clock);
      do_work(op.work);
      context.times.end_ns += op.work.duration_ns;
      break;
    case Op::Kind::wait_event:
      join_event(op, context);
      break;
    case Op::Kind::write_value:
      write_value(op, context);
      break;
    case Op::Kind::wait_value:
      wait_value(op, context);
      break;
    case Op::Kind::rendezvous:
      depart(op, context);
      break;
    case Op::Kind::record:
    case Op::Kind::host:
      break;
  }
  finish(op, context);
}

void OpRunner::run_on_host(Host& host, Op& op) {
  const Moment moment = host.clock.advance(static_cast<Actor>(host.rank));
  check_work(op, op.work, moment, host.clock);
  do_work(op.work);
  op.times = {host.now_ns, host.now_ns + op.work.duration_ns};
  host.now_ns = op.times.end_ns;
  op.clock = host.clock;
  op.done = true;
  op.work = {};
}

void OpRunner::release(Host& host, const Op& op, const void* base) {
  const Moment moment = host.clock.advance(static_cast<Actor>(host.rank));
  Range whole;
  blame(state_, op, [&] { whole = state_.memory.whole(base); });
  access(op, AccessKind::write, whole, moment, host.clock);
  state_.memory.release(base);
}

void OpRunner::join_event(const Op& op, Context& context) const {
  if (!op.awaited) return;
  const Op& record = state_.ops[*op.awaited];
  context.clock.join(record.clock);
  context.times.start_ns = std::max(context.times.start_ns, record.times.end_ns);
  context.times.end_ns = context.times.start_ns;
}

void OpRunner::write_value(const Op& op, const Context& context) {
  const Range range{op.address, sizeof op.value};
  access(op, AccessKind::value_write, range, context.moment, context.clock);
  const std::uint32_t before = value_at(op.address);
  std::memcpy(op.address, &op.value, sizeof op.value);
  SimulatedMemory::mark_written(state_.memory.find(range), range);
  state_.counters.write(op.address, before,
                        {op.value, context.moment, context.clock, context.times.end_ns});
}

void OpRunner::wait_value(const Op& op, Context& context) {
  const Range range{op.address, sizeof op.value};
  access(op, AccessKind::value_wait, range, context.moment, context.clock);
  const CounterWrite write = state_.counters.earliest(op.address, value_at(op.address), op.compare,
                                                      op.value, context.clock);
  context.clock.join(write.clock);
  context.times.start_ns = std::max(context.times.start_ns, write.time_ns);
  context.times.end_ns = context.times.start_ns;
}

void OpRunner::arrive(Op& op, const Context& context) {
  Stream& stream = state_.stream(op.stream);
  stream.clock = context.clock;
  op.clock = context.clock;
  op.times = context.times;
  op.arrived = true;
  for (std::size_t i = 0; i < op.meetings.size(); ++i) gather(op, i);
}

void OpRunner::gather(const Op& op, std::size_t index) {
  const Meeting& meeting = op.meetings[index];
  Gathering& gathering = state_.gatherings[meeting.id];
  for (const Gathering::Party& party : gathering.parties) {
    const Meeting& other = state_.ops[party.op].meetings[party.meeting];
    if (other.key == meeting.key && other.parties == meeting.parties &&
        other.party != meeting.party) {
      continue;
    }
    const auto terms = [](const Meeting& m) {
      return fmt::format("party {} of {}, \"{}\"", m.party, m.parties, m.key);
    };
    throw Finding(Verdict::Kind::mismatch,
                  fmt::format("{}: {} is {}; {} is {}", meeting.id, state_.describe(party.op),
                              terms(other), state_.describe(op.id), terms(meeting)));
  }
  gathering.parties.push_back({op.id, index});
  if (std::cmp_equal(gathering.parties.size(), meeting.parties)) meet(gathering);
}

void OpRunner::meet(Gathering& gathering) {
  const auto meeting_of = [&](const Gathering::Party& party) -> const Meeting& {
    return state_.ops[party.op].meetings[party.meeting];
  };
  std::ranges::sort(gathering.parties, {}, [&](const auto& p) { return meeting_of(p).party; });
  std::int64_t duration_ns = 0;
  for (const Gathering::Party& party : gathering.parties) {
    const Op& op = state_.ops[party.op];
    gathering.clock.join(op.clock);
    gathering.start_ns = std::max(gathering.start_ns, op.times.start_ns);
    duration_ns = std::max(duration_ns, meeting_of(party).work.duration_ns);
  }
  gathering.end_ns = gathering.start_ns + duration_ns;
  for (const Gathering::Party& party : gathering.parties) {
    const Op& op = state_.ops[party.op];
    const Actor actor = state_.stream(op.stream).actor;
    check_work(op, meeting_of(party).work, {actor, op.clock.at(actor)}, gathering.clock);
  }
  for (const Gathering::Party& party : gathering.parties) {
    do_work(meeting_of(party).work);
  }
  gathering.done = true;
}

void OpRunner::depart(const Op& op, Context& context) {
  context.times = op.times;
  for (const Meeting& meeting : op.meetings) {
    Gathering& gathering = state_.gatherings.at(meeting.id);
    context.clock.join(gathering.clock);
    context.times.start_ns = std::max(context.times.start_ns, gathering.start_ns);
    context.times.end_ns = std::max(context.times.end_ns, gathering.end_ns);
    if (++gathering.departed == gathering.parties.size()) state_.gatherings.erase(meeting.id);
  }
}

void OpRunner::access(const Op& op, AccessKind kind, const Range& range, Moment moment,
                      const VectorClock& clock) {
  blame(state_, op, [&] {
    const Allocation& allocation = state_.memory.find(range);
    state_.races.check(allocation, {kind, range, moment, op.id}, clock);
    const bool reads = kind == AccessKind::read || kind == AccessKind::value_wait;
    if (reads) SimulatedMemory::check_written(allocation, range);
  });
}

void OpRunner::check_work(const Op& op, const Work& work, Moment moment, const VectorClock& clock) {
  for (const Range& range : work.reads) access(op, AccessKind::read, range, moment, clock);
  for (const Range& range : work.writes) access(op, AccessKind::write, range, moment, clock);
}

void OpRunner::do_work(const Work& work) {
  if (work.run) work.run();
  for (const Range& range : work.writes) {
    SimulatedMemory::mark_written(state_.memory.find(range), range);
  }
}

}  // namespace commfuse::fake

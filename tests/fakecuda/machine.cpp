// SPDX-License-Identifier: Apache-2.0
// The calls of the host functions; how their threads and the streams take turns is in
// machine_turns.cpp.
#include "tests/fakecuda/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace commfuse::fake {
namespace {

constexpr std::uint64_t kFruitlessQueries = 10000;  // by then every host that could go on has

}  // namespace

Machine::Machine(const MachineOptions& options)
    : options_(options), runner_(state_), scheduler_(options.seed) {}

std::byte* Machine::allocate(std::size_t bytes, std::string name, std::size_t alignment) {
  const Host& host = enter();
  return state_.memory.allocate(host.rank, bytes, std::move(name), alignment);
}

void Machine::release(void* base) {
  Host& host = enter();
  Op op;
  op.kind = Op::Kind::host;
  op.name = "release";
  op.done = true;
  const OpId id = add_op(std::move(op));
  guarded([&] { runner_.release(host, state_.ops[id], base); });
}

void Machine::name_address(const void* address, std::string name) {
  state_.memory.name_address(address, std::move(name));
}

void Machine::set_label(std::string label) { enter().label = std::move(label); }

StreamId Machine::create_stream(std::string name, std::optional<std::int32_t> device) {
  const Host& host = enter();
  Stream stream;
  stream.name = std::move(name);
  stream.rank = host.rank;
  stream.device = device.value_or(host.rank);
  if (const std::size_t count = options_.hardware_queues; count > 0) {
    const auto [entry, fresh] = state_.device_queues.try_emplace(stream.device);
    auto& [first, streams] = entry->second;
    if (fresh) {
      first = state_.queues.size();
      state_.queues.resize(first + count);
    }
    stream.queue = first + streams++ % count;
  }
  return add_stream(std::move(stream));
}

std::size_t Machine::create_queue() {
  enter();
  state_.queues.emplace_back();
  return state_.queues.size() - 1;
}

StreamId Machine::create_stream_in(std::size_t queue, std::string name) {
  const Host& host = enter();
  Stream stream;
  stream.name = std::move(name);
  stream.rank = host.rank;
  stream.device = host.rank;
  stream.queue = queue;
  return add_stream(std::move(stream));
}

StreamId Machine::add_stream(Stream stream) {
  stream.actor = static_cast<Actor>(state_.hosts.size() + state_.streams.size());
  state_.streams.push_back(std::move(stream));
  scheduler_.add_actor();
  return static_cast<StreamId>(state_.streams.size() - 1);
}

EventId Machine::create_event(std::string name) {
  enter();
  state_.events.push_back({std::move(name), {}});
  return static_cast<EventId>(state_.events.size() - 1);
}

OpId Machine::add_op(Op op) {
  const Host& host = state_.hosts[static_cast<std::size_t>(current_rank())];
  op.id = state_.ops.size();
  op.rank = host.rank;
  op.label = host.label;
  op.enqueued = host.clock;
  op.issue_ns = host.now_ns;
  state_.ops.push_back(std::move(op));
  return state_.ops.back().id;
}

OpId Machine::enqueue(Op op) {
  const OpId id = add_op(std::move(op));
  Stream& stream = state_.stream(state_.ops[id].stream);
  stream.ops.push_back(id);
  stream.last = id;
  if (stream.queue) state_.queues[*stream.queue].ops.push_back(id);
  return id;
}

OpId Machine::work(StreamId stream, Work work) {
  enter();
  Op op;
  op.stream = stream;
  op.name = work.name;
  op.work = std::move(work);
  return enqueue(std::move(op));
}

OpId Machine::record(StreamId stream, EventId event) {
  enter();
  Op op;
  op.kind = Op::Kind::record;
  op.stream = stream;
  op.name = "record " + state_.event(event).name;
  const OpId id = enqueue(std::move(op));
  state_.event(event).record = id;
  return id;
}

OpId Machine::wait(StreamId stream, EventId event) {
  enter();
  Op op;
  op.kind = Op::Kind::wait_event;
  op.stream = stream;
  op.name = "wait for " + state_.event(event).name;
  op.awaited = state_.event(event).record;
  return enqueue(std::move(op));
}

OpId Machine::write_value(StreamId stream, void* address, std::uint32_t value) {
  enter();
  Op op;
  op.kind = Op::Kind::write_value;
  op.stream = stream;
  op.name = fmt::format("write {} = {}", state_.memory.describe(address), value);
  op.address = static_cast<std::byte*>(address);
  op.value = value;
  return enqueue(std::move(op));
}

OpId Machine::wait_value(StreamId stream, const void* address, std::uint32_t wanted,
                         Compare compare) {
  enter();
  Op op;
  op.kind = Op::Kind::wait_value;
  op.stream = stream;
  op.name = fmt::format("wait {} {} {}", state_.memory.describe(address),
                        compare == Compare::equal ? "==" : ">=", wanted);
  op.address = static_cast<std::byte*>(const_cast<void*>(address));
  op.backed = state_.memory.is_backed({address, sizeof wanted});
  op.value = wanted;
  op.compare = compare;
  return enqueue(std::move(op));
}

OpId Machine::rendezvous(StreamId stream, std::string name, std::vector<Meeting> meetings) {
  enter();
  Op op;
  op.kind = Op::Kind::rendezvous;
  op.stream = stream;
  op.name = std::move(name);
  op.meetings = std::move(meetings);
  return enqueue(std::move(op));
}

OpId Machine::host_work(Work work) {
  Host& host = enter();
  Op op;
  op.kind = Op::Kind::host;
  op.name = work.name;
  op.work = std::move(work);
  const OpId id = add_op(std::move(op));
  guarded([&] { runner_.run_on_host(host, state_.ops[id]); });
  return id;
}

void Machine::end(const Finding& finding) {
  const Host& host = enter();
  const std::string label = host.label.empty() ? "" : fmt::format(" ({})", host.label);
  stop(finding.kind(), fmt::format("rank {} host{}: {}", host.rank, label, finding.what()));
  throw Stopped{};
}

bool Machine::known(OpId id) const {
  const Op& op = state_.ops[id];
  if (!op.done) return false;
  const Host& host = state_.hosts[static_cast<std::size_t>(current_rank())];
  const Actor actor =
      op.kind == Op::Kind::host ? static_cast<Actor>(op.rank) : state_.stream(op.stream).actor;
  return host.clock.covers({actor, op.clock.at(actor)});
}

std::int64_t Machine::host_now_ns() const {
  return state_.hosts[static_cast<std::size_t>(current_rank())].now_ns;
}

void Machine::advance_host(std::int64_t duration_ns) { enter().now_ns += duration_ns; }

void Machine::synchronise(StreamId stream) {
  Host& host = enter();
  const Stream& awaited = state_.stream(stream);
  if (!awaited.last) return;
  block(host, {*awaited.last}, "synchronise stream " + awaited.name);
}

void Machine::synchronise(EventId event) {
  Host& host = enter();
  const Event& awaited = state_.event(event);
  if (!awaited.record) return;
  block(host, {*awaited.record}, "synchronise event " + awaited.name);
}

void Machine::synchronise_device(std::int32_t device) {
  Host& host = enter();
  std::vector<OpId> ops;
  for (const Stream& stream : state_.streams) {
    if (stream.device == device && stream.last) ops.push_back(*stream.last);
  }
  block(host, std::move(ops), fmt::format("synchronise device {}", device));
}

bool Machine::query(EventId event) {
  enter();
  return poll(state_.event(event).record);
}

bool Machine::query(StreamId stream) {
  enter();
  return poll(state_.stream(stream).last);
}

bool Machine::poll(std::optional<OpId> op) {
  Host& host = state_.hosts[static_cast<std::size_t>(current_rank())];
  if (!op || state_.ops[*op].done) {
    if (op) block(host, {*op}, "query");
    return true;
  }
  scheduler_.demote(static_cast<Actor>(host.rank));
  if (++fruitless_queries_ > kFruitlessQueries) {
    stop(Verdict::Kind::deadlock,
         fmt::format("rank {} host polls in vain for {}", host.rank, state_.describe(*op)));
    throw Stopped{};
  }
  return false;
}

void Machine::block(Host& host, std::vector<OpId> ops, std::string call) {
  host.waits_for = std::move(ops);
  host.waits_in = std::move(call);
  if (!state_.ready(host)) take_turns(host);
  for (const OpId id : host.waits_for) {
    const Op& op = state_.ops[id];
    host.clock.join(op.clock);
    host.now_ns = std::max(host.now_ns, op.times.end_ns);
  }
  host.waits_for.clear();
}

void Machine::barrier() {
  std::vector<std::int32_t> all;
  for (const Host& host : state_.hosts) all.push_back(host.rank);
  barrier(all);
}

void Machine::barrier(const std::vector<std::int32_t>& ranks) {
  Host& host = enter();
  host.barrier_of = ranks;
  host.waits_in = "barrier";
  const auto each = [&](const auto& visit) {
    for (const std::int32_t rank : ranks) visit(state_.hosts[static_cast<std::size_t>(rank)]);
  };
  bool complete = true;
  VectorClock clock;
  std::int64_t now_ns = 0;
  each([&](const Host& other) {
    complete = complete && other.barrier_of == ranks;
    clock.join(other.clock);
    now_ns = std::max(now_ns, other.now_ns);
  });
  if (!complete) return take_turns(host);
  each([&](Host& other) {
    other.clock = clock;
    other.now_ns = now_ns;
    other.barrier_of.clear();
  });
}

}  // namespace commfuse::fake

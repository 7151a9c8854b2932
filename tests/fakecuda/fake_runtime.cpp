// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/fake_runtime.h"

#include <fmt/format.h>

#include <stdexcept>

#include "tests/fakecuda/handles.h"

namespace commfuse::fake {
namespace {

FakeRuntime*& slot() {
  static FakeRuntime* runtime = nullptr;
  return runtime;
}

}  // namespace

FakeRuntime::FakeRuntime(FakeDevices devices) : devices_(std::move(devices)) {
  if (slot() != nullptr) throw std::logic_error("two fake CUDA runtimes at once");
  slot() = this;
}

FakeRuntime::~FakeRuntime() { slot() = nullptr; }

FakeRuntime* FakeRuntime::current() { return slot(); }

RankState& FakeRuntime::rank() { return ranks_[Machine::current_rank()]; }

Context FakeRuntime::context() { return context_of(rank().device); }

Context FakeRuntime::context_of(std::int32_t device) const {
  return devices_.one_process ? device : Machine::current_rank() * devices_.count + device;
}

StreamId FakeRuntime::create_stream(Machine& machine) {
  const std::string name = fmt::format("#{}", rank().streams++);
  const StreamId id = machine.create_stream(name, context());
  streams_[id] = {Machine::current_rank(), context(), false};
  return id;
}

EventId FakeRuntime::create_event(Machine& machine, bool timed) {
  const EventId id = machine.create_event(fmt::format("event {}", events_.size()));
  events_[id] = {Machine::current_rank(), timed, false, {}, nullptr, 0};
  return id;
}

FakeStream& FakeRuntime::stream(cudaStream_t handle) {
  const auto found = streams_.find(stream_of(handle));
  if (found == streams_.end()) report_host_error("what was given is no stream");
  FakeStream& stream = found->second;
  if (stream.destroyed) report_host_error("the stream was destroyed before");
  if (!devices_.one_process && stream.rank != Machine::current_rank()) {
    report_host_error(fmt::format("the stream belongs to rank {}", stream.rank));
  }
  return stream;
}

FakeEvent& FakeRuntime::event(cudaEvent_t handle) {
  const auto found = events_.find(event_of(handle));
  if (found == events_.end()) report_host_error("what was given is no event");
  FakeEvent& event = found->second;
  if (event.destroyed) report_host_error("the event was destroyed before");
  if (!devices_.one_process && event.rank != Machine::current_rank()) {
    report_host_error(fmt::format("the event belongs to rank {}", event.rank));
  }
  return event;
}

StreamRef FakeRuntime::use(cudaStream_t handle) {
  return {stream_of(handle), stream(handle).context};
}

StreamRef FakeRuntime::default_stream(Machine& machine) {
  const Context here = context();
  const auto found = default_streams_.find(here);
  if (found != default_streams_.end()) return {found->second, here};
  const StreamId id = machine.create_stream("default", here);
  return {default_streams_.try_emplace(here, id).first->second, here};
}

std::shared_ptr<StreamCapture> FakeRuntime::capture_of(StreamId stream) const {
  const auto found = captures.find(stream);
  return found != captures.end() ? found->second : nullptr;
}

bool FakeRuntime::spoils_capture() {
  bool spoilt = false;
  for (const auto& [stream, capture] : captures) {
    if (!capture->strict() || streams_[stream].rank != Machine::current_rank()) continue;
    capture->invalidate();
    spoilt = true;
  }
  return spoilt;
}

std::size_t FakeRuntime::free_bytes(std::int32_t device) const {
  std::size_t used = 0;
  for (const auto& [base, allocation] : allocations_) {
    if (allocation.device == device) used += allocation.bytes;
  }
  return devices_.memory_bytes - used;
}

void* FakeRuntime::allocate(Machine& machine, std::size_t bytes) {
  const std::int32_t device = rank().device;
  if (bytes > free_bytes(device)) return nullptr;
  void* base = machine.allocate(bytes, fmt::format("memory {}", rank().allocations++));
  allocations_[base] = {Machine::current_rank(), device, context(), bytes};
  return base;
}

void FakeRuntime::release(Machine& machine, void* base) {
  const auto found = allocations_.find(base);
  if (found != allocations_.end()) {
    if (!devices_.one_process && found->second.rank != Machine::current_rank()) {
      report_host_error(fmt::format("frees memory of rank {}", found->second.rank));
    }
    shared.check_closed(machine, base);
    machine.synchronise_device(found->second.context);
  }
  machine.release(base);  // finds what is no base, and what was freed before
  allocations_.erase(base);
}

const std::pair<const void* const, FakeAllocation>* FakeRuntime::allocation(
    const void* address) const {
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return nullptr;
  const auto& entry = *std::prev(after);
  const std::byte* end = static_cast<const std::byte*>(entry.first) + entry.second.bytes;
  return static_cast<const std::byte*>(address) < end ? &entry : nullptr;
}

bool FakeRuntime::is_pinned(const Range& range) const {
  auto after = pinned.upper_bound(range.data);
  if (after == pinned.begin()) return false;
  const auto& [base, block] = *std::prev(after);
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(range.data) -
                                               static_cast<const std::byte*>(base));
  return offset <= block.bytes && range.bytes <= block.bytes - offset;
}

void FakeRuntime::check_reach(const Range& range, Context context) const {
  const auto* entry = allocation(range.data);
  if (entry == nullptr || entry->second.context == context) return;
  const FakeAllocation& there = entry->second;
  const std::int32_t rank = Machine::current_rank();
  if (!devices_.one_process) {
    if (there.rank == rank || shared.is_open(rank, entry->first)) return;
    report_host_error(fmt::format(
        "touches memory of rank {} that is not open here, in another process", there.rank));
  }
  if (!peers.contains({context, there.device})) {
    report_host_error(fmt::format("touches memory of device {} without peer access", there.device));
  }
}

void FakeRuntime::note_touch(const Range& range, StreamId stream, OpId op) {
  const auto* entry = allocation(range.data);
  const std::int32_t rank = Machine::current_rank();
  if (entry == nullptr || !shared.is_open(rank, entry->first)) return;
  shared.touched(rank, entry->first, stream, op);
}

void FakeRuntime::check_lull(const Machine& machine, const std::string& call) {
  if (devices_.find_implicit_synchronisation) waits.check(machine, context(), call);
}

void FakeRuntime::load(const Machine& machine, const void* kernel, const std::string& name) {
  if (!loaded_.insert({context(), kernel}).second) return;
  check_lull(machine, "loading the kernel " + name + " at its first use");
}

int FakeRuntime::shared_limit(const void* kernel) const {
  constexpr int kWithoutAsking = 48 << 10;
  const auto found = shared_limits_.find(kernel);
  return found != shared_limits_.end() ? found->second : kWithoutAsking;
}

}  // namespace commfuse::fake

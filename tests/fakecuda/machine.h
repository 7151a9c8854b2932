// SPDX-License-Identifier: Apache-2.0
// An adversarial machine of streams. Host threads of the ranks run one at a time, and their calls
// only enqueue; streams are FIFOs of which one head runs at a time; the scheduler picks among all
// of them with a seed, and the seed replays exactly. The first race, deadlock, bad access or read
// of poison ends the run.
//
// Order between operations is what these calls make, and nothing else:
//   host call -> operation           the operation knows what the host knew
//   record -> event wait             of the last record made before the host call of the wait
//   value write -> value wait        only the earliest write that satisfies the wait
//   arrivals -> end of a rendezvous  all parties know what all knew
//   operations -> host               by synchronising, or by a query that says yes
//   barrier                          all hosts know what all knew
//
// Only host functions may call a machine. Once the run has ended, their calls throw Stopped: a fake
// library catches it and returns its sticky error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <typeindex>
#include <unordered_map>
#include <vector>

#include "tests/fakecuda/host_threads.h"
#include "tests/fakecuda/machine_state.h"
#include "tests/fakecuda/op_runner.h"
#include "tests/fakecuda/scheduler.h"
#include "tests/fakecuda/verdict.h"

namespace commfuse::fake {

/// Thrown into host functions after the end of the run.
class Stopped {};

struct MachineOptions {
  std::uint64_t seed = 0;
  /// FIFO hardware queues of a device, to which its streams are assigned in turn; 0 gives every
  /// stream its own.
  std::size_t hardware_queues = 0;
};

class Machine {
 public:
  explicit Machine(const MachineOptions& options);

  /// Runs the host function of every rank and then what is left in the streams. Once per machine.
  Verdict run(std::int32_t ranks, const std::function<void(std::int32_t rank)>& host_function);

  /// The machine and the rank of the calling host thread. Throws std::logic_error elsewhere.
  static Machine& current();
  static std::int32_t current_rank();

  /// Memory of the calling rank; addresses are valid on all ranks and never used twice.
  std::byte* allocate(std::size_t bytes, std::string name,
                      std::size_t alignment = SimulatedMemory::kAlignment);
  /// Frees at once and waits for nothing: an access that is not ordered before it is a race.
  void release(void* base);
  void name_address(const void* address, std::string name);
  /// Labels the operations that this rank enqueues from now on, for reports.
  void set_label(std::string label);

  /// A stream of the calling rank, on the device with the number of the rank unless given.
  StreamId create_stream(std::string name, std::optional<std::int32_t> device = {});
  EventId create_event(std::string name);
  /// A hardware queue of its own, whatever the options say, and streams in it: of all operations in
  /// them only the one that was issued first can run, which orders nothing for the race detector.
  std::size_t create_queue();
  StreamId create_stream_in(std::size_t queue, std::string name);

  OpId work(StreamId stream, Work work);
  OpId record(StreamId stream, EventId event);
  /// Refers to the last record made before this call; without one it does nothing.
  OpId wait(StreamId stream, EventId event);
  OpId write_value(StreamId stream, void* address, std::uint32_t value);
  OpId wait_value(StreamId stream, const void* address, std::uint32_t wanted,
                  Compare compare = Compare::greater_equal);
  /// A joint operation, or several at once that do not wait for one another.
  OpId rendezvous(StreamId stream, std::string name, std::vector<Meeting> meetings);

  /// Something that the host thread itself does to device memory, at once.
  OpId host_work(Work work);
  /// Adds to the virtual time of the host thread.
  void advance_host(std::int64_t duration_ns);

  void synchronise(StreamId stream);
  void synchronise(EventId event);
  void synchronise_device(std::int32_t device);
  /// Whether the last record is done, or there was none. A host that polls lets all others go
  /// first.
  bool query(EventId event);
  bool query(StreamId stream);
  /// Waits for all ranks: what a bootstrap network does.
  void barrier();
  /// Waits for these ranks, in ascending order, of which the caller is one.
  void barrier(const std::vector<std::int32_t>& ranks);

  /// Ends the run with what a fake library found in a host call. Throws Stopped.
  [[noreturn]] void end(const Finding& finding);
  /// Whether the calling thread is a host thread of a machine.
  static bool is_here();
  /// Whether the run has ended, so that calls throw Stopped. For host threads.
  [[nodiscard]] bool ended() const { return stopped_; }
  /// Whether the operation is done and the calling host thread has learned of it.
  [[nodiscard]] bool known(OpId op) const;
  /// "rank 1 stream send2 copy", for findings.
  [[nodiscard]] std::string describe(OpId op) const { return state_.describe(op); }
  /// Whether the bytes lie in an allocation, live or freed.
  [[nodiscard]] bool is_allocated(const Range& range) const {
    return state_.memory.is_backed(range);
  }

  /// What a fake library keeps for this run: made by its first use, shared by all ranks, destroyed
  /// with the machine.
  template <class State>
  State& kept() {
    std::shared_ptr<void>& state = kept_[std::type_index(typeid(State))];
    if (!state) state = std::make_shared<State>();
    return *static_cast<State*>(state.get());
  }

  /// An operation, done or not, and the device of a stream.
  [[nodiscard]] const Op& operation(OpId op) const { return state_.ops[op]; }
  [[nodiscard]] std::int32_t device_of(StreamId stream) const {
    return state_.stream(stream).device;
  }
  /// The virtual time of the calling host thread.
  [[nodiscard]] std::int64_t host_now_ns() const;
  /// Of an operation that is done; the call itself orders nothing.
  [[nodiscard]] OpTimes times(OpId op) const { return state_.ops[op].times; }
  /// What was done, in the order in which it was done. After the run.
  [[nodiscard]] std::span<const TraceEntry> trace() const { return state_.trace; }
  /// Accesses that the race detector remembers.
  [[nodiscard]] std::size_t remembered() const { return state_.races.size(); }

 private:
  Host& enter();
  StreamId add_stream(Stream stream);
  OpId enqueue(Op op);
  OpId add_op(Op op);
  void block(Host& host, std::vector<OpId> ops, std::string call);
  bool poll(std::optional<OpId> op);

  void host_body(std::int32_t rank, const std::function<void(std::int32_t)>& host_function);
  void leave(Host& host);
  void take_turns(Host& host);
  std::optional<std::int32_t> next_host();
  std::optional<Actor> choose();
  void collect_runnable();
  void run_head(Actor actor);
  bool all_done() const;
  void guarded(const std::function<void()>& body);
  void stop(Verdict::Kind kind, const std::string& message);

  MachineOptions options_;
  MachineState state_;
  OpRunner runner_;
  Scheduler scheduler_;
  std::unique_ptr<HostThreads> threads_;
  std::vector<Actor> runnable_;
  std::unordered_map<std::type_index, std::shared_ptr<void>> kept_;
  std::uint64_t fruitless_queries_ = 0;  // since an operation was done
  bool stopped_ = false;
  Verdict verdict_;
};

}  // namespace commfuse::fake

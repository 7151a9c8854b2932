// SPDX-License-Identifier: Apache-2.0
// Runs one operation: clocks, virtual time, checks of its accesses, its effect.
#pragma once

#include <cstdint>

#include "tests/fakecuda/machine_state.h"

namespace commfuse::fake {

class OpRunner {
 public:
  /// Works on `state`, which must outlive it.
  explicit OpRunner(MachineState& state) : state_(state) {}

  /// Runs the head of a stream, which must be ready. A rendezvous runs twice: it arrives, and goes
  /// on once all parties have arrived. Throws Finding, and what the body of a work throws.
  void run(Op& op);
  /// Runs a work of a host thread, in the name of an op of kind host.
  void run_on_host(Host& host, Op& op);
  /// Frees an allocation, which counts as a write to all of it.
  void release(Host& host, const Op& op, const void* base);

 private:
  /// What an operation is while it runs.
  struct Context {
    Moment moment;
    VectorClock clock;
    OpTimes times;
  };
  [[nodiscard]] Context begin(const Op& op);
  void finish(Op& op, Context& context);
  void leave_queues(const Op& op, const OpTimes& times);

  void join_event(const Op& op, Context& context) const;
  void write_value(const Op& op, const Context& context);
  void wait_value(const Op& op, Context& context);
  void arrive(Op& op, const Context& context);
  void gather(const Op& op, std::size_t meeting);
  void meet(Gathering& gathering);
  void depart(const Op& op, Context& context);

  void access(const Op& op, AccessKind kind, const Range& range, Moment moment,
              const VectorClock& clock);
  void check_work(const Op& op, const Work& work, Moment moment, const VectorClock& clock);
  void do_work(const Work& work);

  MachineState& state_;
};

}  // namespace commfuse::fake

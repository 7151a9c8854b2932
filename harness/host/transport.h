// SPDX-License-Identifier: Apache-2.0
// What moves data between the ranks of the host executor. A transport is a pair of classes: the
// Transport belongs to one rank for as long as its executor lives, and opens a Channel for every
// prepared plan. To add a transport, write such a pair in a file of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "harness/executor.h"
#include "harness/host/storage.h"
#include "harness/program.h"
#include "harness/record/timeline.h"

namespace commfuse {

/// Iterations of a prepared plan are numbered from 1 on, over all of its runs.
using Epoch = std::uint64_t;

/// When the newest iteration of an event was complete. `begin_ns` and `end_ns` are valid once
/// `epoch` has been seen (acquire). All-zero bytes are a completion that never happened, so it may
/// lie in shared memory.
struct Completion {
  std::atomic<Epoch> epoch{0};
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;

  [[nodiscard]] bool reached(Epoch wanted) const {
    return epoch.load(std::memory_order_acquire) >= wanted;
  }
  void publish(Epoch reached, std::int64_t begin, std::int64_t end) {
    begin_ns = begin;
    end_ns = end;
    epoch.store(reached, std::memory_order_release);
  }
};

/// One call of Executor::run: iteration i has epoch first + i and fills timelines[i].
struct Run {
  Epoch first = 1;
  std::int64_t start_ns = 0;
  std::span<Timeline> timelines;  // spans as Program::spans() has them

  [[nodiscard]] Epoch last() const { return first + timelines.size() - 1; }
  [[nodiscard]] Span& span(Epoch epoch, const Event& event) const {
    return timelines[epoch - first].spans[event.span];
  }
};

/// The communication of one prepared plan on one rank. Called by the rank's thread only; nothing
/// allocates between begin() and finish(). The channel fills the spans of messages and collectives.
class Channel {
 public:
  virtual ~Channel() = default;
  /// Before the first op. Messages whose dependencies are done may start from now on.
  virtual void begin(const Run& run) = 0;
  /// A compute op of this iteration took from begin_ns to end_ns.
  virtual void completed(EventId event, Epoch epoch, std::int64_t begin_ns,
                         std::int64_t end_ns) = 0;
  /// Returns once the message or collective is complete, and the time at which it was.
  virtual std::int64_t wait(EventId event, Epoch epoch) = 0;
  /// Carries out a collective of the compute lane, whose turn came and whose dependencies were done
  /// at ready_ns. Returns the time at which it was complete, once it is.
  virtual std::int64_t collective(EventId event, Epoch epoch, std::int64_t ready_ns) = 0;
  /// Returns once all messages and collectives of the run are complete on this rank: nobody
  /// reads or writes its tensors any more.
  virtual void finish() = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  /// Whether peers reach into a rank's tensors, which then lie in shared segments.
  [[nodiscard]] virtual bool shares_memory() const = 0;
  /// For the runs that follow. Transports with a real link ignore it.
  virtual void set_link(const LinkSpeed& link) = 0;
  /// See Executor::take_wire_report().
  virtual WireReport take_report() = 0;
  /// Collective over the group. `program` outlives the channel; storages[r] holds the tensors of
  /// rank r (of this rank alone unless shares_memory()), and no address for tensors that are never
  /// communicated. Throws Unsupported for what this transport cannot carry.
  virtual std::unique_ptr<Channel> open(const Program& program,
                                        std::span<const Storage> storages) = 0;
};

}  // namespace commfuse

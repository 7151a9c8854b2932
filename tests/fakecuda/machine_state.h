// SPDX-License-Identifier: Apache-2.0
// Everything that a machine knows, without behaviour beyond look-ups. One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakecuda/counter_history.h"
#include "tests/fakecuda/operation.h"
#include "tests/fakecuda/race_detector.h"
#include "tests/fakecuda/simulated_memory.h"

namespace commfuse::fake {

/// The host thread of a rank; its actor is the rank.
struct Host {
  std::int32_t rank = 0;
  VectorClock clock;
  std::int64_t now_ns = 0;
  std::string label;
  std::vector<OpId> waits_for;           // blocked until they are done
  std::string waits_in;                  // the call it is blocked in, for reports
  std::vector<std::int32_t> barrier_of;  // ranks of the barrier it is in; none: in no barrier
  bool finished = false;
};

struct Stream {
  std::string name;
  std::int32_t rank = 0;
  std::int32_t device = 0;
  Actor actor = 0;
  std::optional<std::size_t> queue;  // into MachineState::queues; none: a queue of its own
  std::deque<OpId> ops;              // not done yet
  std::optional<OpId> last;          // enqueued, done or not
  VectorClock clock;
  std::int64_t free_ns = 0;
};

struct Event {
  std::string name;
  std::optional<OpId> record;  // the last one, by host calls
};

/// A hardware queue: operations of its streams in the order of the host calls. Only the first runs.
struct HardwareQueue {
  std::deque<OpId> ops;
  std::int64_t start_ns = 0;  // of the latest operation
};

/// A joint operation for which parties have arrived.
struct Gathering {
  struct Party {
    OpId op = 0;
    std::size_t meeting = 0;
  };
  std::vector<Party> parties;
  std::size_t departed = 0;
  bool done = false;
  VectorClock clock;  // what all parties knew
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

class MachineState {
 public:
  MachineState();

  [[nodiscard]] Stream& stream(StreamId id) { return streams[static_cast<std::size_t>(id)]; }
  [[nodiscard]] const Stream& stream(StreamId id) const {
    return streams[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] Event& event(EventId id) { return events[static_cast<std::size_t>(id)]; }

  /// Whether the op, at the head of its stream and its queue, can run now.
  [[nodiscard]] bool ready(const Op& op) const;
  /// Whether another stream's op is before this one in its hardware queue; which one.
  [[nodiscard]] std::optional<OpId> held_up_by(const Op& op) const;
  /// Whether the host thread can go on.
  [[nodiscard]] bool ready(const Host& host) const;
  /// What every host thread and every operation still to come will cover.
  [[nodiscard]] VectorClock covered_by_all() const;
  /// "rank 1 stream send2 copy (send step 1)".
  [[nodiscard]] std::string describe(OpId op) const;

  SimulatedMemory memory;
  RaceDetector races;
  CounterHistory counters;
  std::deque<Op> ops;  // by OpId
  std::vector<Host> hosts;
  std::deque<Stream> streams;  // by StreamId; the actor of stream i is hosts.size() + i
  std::vector<Event> events;   // by EventId
  std::vector<HardwareQueue> queues;
  std::map<std::int32_t, std::pair<std::size_t, std::size_t>> device_queues;  // first, streams
  std::map<std::string, Gathering> gatherings;                                // by Meeting::id
  std::vector<TraceEntry> trace;
};

/// The 32-bit value at the address, which must be backed.
[[nodiscard]] std::uint32_t value_at(const std::byte* address);

}  // namespace commfuse::fake

// SPDX-License-Identifier: Apache-2.0
// What streams hold: operations, from the host call that enqueued them until they are done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/fakecuda/counter_history.h"
#include "tests/fakecuda/simulated_memory.h"
#include "tests/fakecuda/vector_clock.h"

namespace commfuse::fake {

enum class StreamId : std::uint32_t {};
enum class EventId : std::uint32_t {};
/// Counted over all ranks, in the order of the host calls.
using OpId = std::uint64_t;

/// Something that reads and writes memory: a kernel or a copy. `run` does it to the real bytes, at
/// once; the duration is in virtual time. Bytes that it updates are in both lists.
struct Work {
  std::string name;
  std::vector<Range> reads;
  std::vector<Range> writes;
  std::int64_t duration_ns = 0;
  std::function<void()> run;
};

/// The part that one party has in a joint operation. It happens once the parties' operations are
/// all at the heads of their streams; then every party knows what all knew. Parties must agree on
/// `parties` and `key` (for example kind, count and type) and differ in `party`.
struct Meeting {
  std::string id;  // no other one that is not over has it
  std::int32_t parties = 0;
  std::int32_t party = 0;
  std::string key;
  Work work;  // the works of all parties run together, in the order of `party`
};

/// Virtual nanoseconds.
struct OpTimes {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

struct Op {
  enum class Kind : std::uint8_t {
    work,
    record,
    wait_event,
    write_value,
    wait_value,
    rendezvous,
    host  // done by a host thread, in no stream
  };
  OpId id = 0;
  Kind kind = Kind::work;
  std::int32_t rank = 0;
  StreamId stream{};
  std::string name;
  std::string label;          // the caller's label at the host call
  VectorClock enqueued;       // the host's clock at the host call
  std::int64_t issue_ns = 0;  // the host's virtual time at the host call

  Work work;                     // work
  std::optional<OpId> awaited;   // wait_event: the record it refers to
  std::byte* address = nullptr;  // write_value, wait_value
  bool backed = false;           // the address lies in an allocation
  std::uint32_t value = 0;       // written, or wanted
  Compare compare = Compare::greater_equal;
  std::vector<Meeting> meetings;  // rendezvous: all of them, in any order

  bool arrived = false;  // rendezvous: is at the head and has told the others
  bool done = false;
  VectorClock clock;  // rendezvous: at arrival; all: when done
  OpTimes times;
};

/// One line of a run: an operation that was done. Equal seeds give equal traces.
struct TraceEntry {
  OpId op = 0;
  std::int32_t rank = 0;
  std::string stream;
  std::string name;
  OpTimes times;
};

}  // namespace commfuse::fake

// SPDX-License-Identifier: Apache-2.0
// Bugs at the boundary of the CUDA libraries: what a program put into a stream is left out,
// changed, or made later than it asked. The program itself stays as it is, so that its bug table is
// of its own text, and none of its code exists for the sake of a test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "tests/fakecuda/machine.h"

namespace commfuse::fake {

/// One call that puts something into a stream. Of a group of NCCL's calls: all that it starts on
/// one communicator.
struct StreamCall {
  enum class Kind : std::uint8_t {
    kernel,
    copy,  // from device memory to device memory
    other_work,
    record,
    wait_event,
    write_value,
    wait_value,
    joint
  };
  Kind kind = Kind::kernel;
  StreamId stream{};
  EventId event{};               // recorded, or waited for
  std::byte* address = nullptr;  // of a value
  std::uint32_t value = 0;       // written, or wanted
  std::int32_t rank = Machine::current_rank();
};

/// From its construction to its destruction it is the current one.
class CallFault {
 public:
  CallFault() { slot() = this; }
  virtual ~CallFault() { slot() = nullptr; }
  CallFault(const CallFault&) = delete;
  CallFault& operator=(const CallFault&) = delete;

  /// Null: every call is made as it is.
  static CallFault* current() { return slot(); }

  /// Makes a call, with the stream, event, address and value of the argument.
  using Make = std::function<void(const StreamCall&)>;
  /// In place of the call, on its host thread. `make` may be kept for a later one of the same rank.
  virtual void at(const StreamCall& call, const Make& make) = 0;
  /// Whether the starts and ends of NCCL's groups are left out.
  virtual bool ungrouped() { return false; }
  /// Whether memory that is given back stays registered.
  virtual bool stays_registered() { return false; }
  /// In place of the count of a send or receive.
  virtual std::size_t count_of(std::size_t count) { return count; }

 private:
  static CallFault*& slot() {
    static CallFault* fault = nullptr;
    return fault;
  }
};

/// For a fake library, in place of putting something into a stream.
inline void make_call(const StreamCall& call, const CallFault::Make& make) {
  if (CallFault* fault = CallFault::current()) {
    fault->at(call, make);
  } else {
    make(call);
  }
}

}  // namespace commfuse::fake

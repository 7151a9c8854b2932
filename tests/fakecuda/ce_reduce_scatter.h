// SPDX-License-Identifier: Apache-2.0
// A GEMM followed by a reduce-scatter over copy engines, written by hand as the transport `ce` does
// it: streams, events, slots, and counters flag (data of epoch e is here) and ack (the slot is free
// again). It takes one bug, for counting whether the machine finds it.
//
//   direct  step s sends the block of rank + s; the owner adds what arrives to its own
//   ring    step s sends to the right a block to which what came from the left was added
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/fakecuda/verdict.h"

namespace commfuse::fake {

enum class Bug : std::uint8_t {
  none,
  no_event_wait,         // between GEMM and copy
  event_recorded_early,  // before its GEMM
  event_waited_early,    // before it is recorded
  block_overwritten,     // before it was sent
  flag_before_copy,      // the copy comes after
  no_flag_wait,          // reads whatever is in the slot
  flag_wait_low,         // by one epoch
  no_ack_wait,           // overwrites the slot
  ack_wait_low,          // by one epoch
  ack_before_read,       // the read comes after
  epochs_restarted,      // for a second measurement
  no_ack_written,        // the sender waits for ever
  flag_in_wrong_slot     // the receiver waits for ever
};

enum class Route : std::uint8_t { direct, ring };

/// The order of a rank's host calls.
enum class Issue : std::uint8_t {
  sends_first,     // all sends of the iteration, then the receives (ring: by steps)
  steps,           // send of step s, then receive of step s
  receives_first,  // all receive waits of the iteration, then the rest
};

struct CeProgram {
  std::int32_t ranks = 2;
  Route route = Route::direct;
  Bug bug = Bug::none;
  Issue issue = Issue::sends_first;
  /// Three streams per rank (compute, send, receive) instead of compute and one per destination.
  bool three_streams = false;
  /// All streams of all ranks on one device instead of a device per rank.
  bool one_device = false;
  std::int32_t iterations = 3;  // per measurement, with new inputs each
  std::int32_t measurements = 2;
};

struct CeResult {
  Verdict verdict;
  std::int64_t checked = 0;  // outputs
  std::int64_t wrong = 0;
};

CeResult run(const CeProgram& program, std::uint64_t seed, std::size_t hardware_queues = 0);

}  // namespace commfuse::fake

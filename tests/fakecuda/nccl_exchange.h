// SPDX-License-Identifier: Apache-2.0
// A program for the fake NCCL with one bug at a time: every iteration, blocks for all peers are
// computed, exchanged in groups on one communicator, and consumed; beside it runs an all-gather on
// another communicator, from and into windows of it. Inputs are new in every iteration.
#pragma once

#include <cstdint>

#include "tests/fakecuda/verdict.h"

namespace commfuse::fake {

enum class NcclBug : std::uint8_t {
  none,
  ungrouped,              // send, then receive, of every exchange
  unequal_counts,         // rank 0 expects less than it is sent
  reversed,               // rank 0 makes its exchanges in reverse
  opposite_order,         // rank 0 exchanges first, the others gather first
  in_place_self_send,     // the own block is sent to itself where it lies
  exchange_too_early,     // does not wait until the block is computed
  consumed_too_early,     // does not wait for the exchange
  overwritten_too_early,  // computes the next blocks while these are sent
  windows_reversed,       // rank 0 registers its windows in the other order
  freed_too_early         // the windows' memory, before they are deregistered
};

struct NcclProgram {
  std::int32_t ranks = 4;
  std::int32_t iterations = 3;
  NcclBug bug = NcclBug::none;
};

struct NcclProgramResult {
  Verdict verdict;
  std::int64_t checked = 0;  // elements, in runs without a finding
  std::int64_t wrong = 0;
};

NcclProgramResult run(const NcclProgram& program, std::uint64_t seed);

}  // namespace commfuse::fake

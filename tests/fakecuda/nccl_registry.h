// SPDX-License-Identifier: Apache-2.0
// Memory that is registered with communicators of the fake NCCL. Registration changes nothing about
// what moves; what runs in place of a kernel, and what is misuse, depends on it:
//   a collective on a communicator that has memory registered, with other memory: NCCL falls back
//   without a word, so that whoever asked for registered buffers measures something else
//   windows of different sizes, or reached at different places on the ranks
//   memory that is freed, and communicators that are destroyed, while they are in use
#pragma once

#include <nccl.h>

#include <cstdint>
#include <optional>
#include <string>

#include "tests/fakecuda/nccl_call.h"
#include "tests/fakecuda/simulated_memory.h"

namespace commfuse::fake {

/// A registration; its address is the handle, or the window.
struct NcclBuffer {
  ncclComm* comm = nullptr;
  Range range;
  std::optional<std::int64_t> window;  // its number among those of the communicator
  bool live = true;
};

/// Keeps it for the run.
NcclBuffer& add_buffer(ncclComm& comm, const Range& range, std::optional<std::int64_t> window);
/// Refuses what is no handle of this communicator and kind. Throws Finding for one that was given
/// back before.
ncclResult_t give_back(ncclComm& comm, void* handle, bool window);

/// Each throws Finding while memory is registered.
void check_free(const Range& range);
void check_destroy(const ncclComm& comm);
/// Throws Finding for a collective whose memory is not that of its communicator, or that copy
/// engines are to do and cannot.
void check_memory(const NcclCall& call);

/// Whether all memory of the call lies in windows of its communicator.
[[nodiscard]] bool in_windows(const NcclCall& call);
/// Whether NCCL would have copy engines do it.
[[nodiscard]] bool by_copy_engines(const NcclCall& call);
/// Where peers reach this rank's memory, for terms on which the ranks must agree: "window 0 + 256";
/// empty unless in windows.
[[nodiscard]] std::string reached_place(const NcclCall& call);

}  // namespace commfuse::fake

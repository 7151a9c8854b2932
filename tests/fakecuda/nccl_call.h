// SPDX-License-Identifier: Apache-2.0
// One operation that a rank gave to the fake NCCL, and what it becomes: a part in a joint operation
// of the machine.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/fakecuda/number_format.h"
#include "tests/fakecuda/operation.h"

struct ncclComm;

namespace commfuse::fake {

struct NcclCall {
  /// all_to_all only where copy engines do it, else it is sends and receives.
  enum class Kind : std::uint8_t {
    send,
    receive,
    all_gather,
    reduce_scatter,
    all_to_all,
    all_reduce
  };
  Kind kind = Kind::send;
  ncclComm* comm = nullptr;
  StreamId stream{};
  const void* source = nullptr;
  void* target = nullptr;
  std::size_t count = 0;  // as NCCL counts: per rank, except for all_reduce
  ncclDataType_t type = ncclFloat32;
  std::int32_t peer = 0;  // of send and receive

  [[nodiscard]] bool point_to_point() const { return kind == Kind::send || kind == Kind::receive; }
};

/// The buffers of all parties, by party; those who take part share it.
struct NcclJoint {
  explicit NcclJoint(std::int32_t parties)
      : sources(static_cast<std::size_t>(parties)), targets(static_cast<std::size_t>(parties)) {}
  std::vector<const void*> sources;
  std::vector<void*> targets;
  std::int32_t joined = 0;
};

/// 0 for what is no type of NCCL.
[[nodiscard]] std::size_t bytes_of(ncclDataType_t type);
/// Throws Finding for a type that the fake does not add.
[[nodiscard]] NumberFormat summed_format(ncclDataType_t type);

/// What a call reads and writes on its own rank; a range without bytes where nothing.
[[nodiscard]] Range read_by(const NcclCall& call);
[[nodiscard]] Range written_by(const NcclCall& call);

/// The name of the kernel that NCCL would run for it.
[[nodiscard]] std::string kernel_of(const NcclCall& call);

/// The call's part in its joint operation. Counts it: calls match in the order in which each rank
/// makes them.
[[nodiscard]] Meeting meeting_of(const NcclCall& call);

}  // namespace commfuse::fake

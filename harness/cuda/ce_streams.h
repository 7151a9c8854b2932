// SPDX-License-Identifier: Apache-2.0
// On which streams blocks are pushed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "harness/cuda/cuda_resources.h"
#include "harness/cuda/device.h"
#include "impls/plan.h"

namespace commfuse {

/// The more streams, the less a slow peer delays blocks for others.
enum class Sharing : std::uint8_t {
  destination,  // a stream for each lane and destination
  lane,         // one for each lane
  rank          // one
};

/// The finest sharing at which all streams of a device's ranks have a hardware queue each: a stream
/// that waits would hold up another one of its queue. Throws Unsupported where there is none.
Sharing finest_sharing(const Device& device, std::int32_t ranks, std::int32_t executors = 1);
/// Streams of one rank: compute and end of iterations of each executor, credits, and those that
/// push.
std::int32_t streams_of_rank(Sharing sharing, std::int32_t ranks, std::int32_t executors = 1);
std::string name_of(Sharing sharing);

/// Belongs to one rank; made on its device.
class CeStreams {
 public:
  CeStreams(Sharing sharing, std::int32_t rank, std::int32_t ranks, int priority);

  [[nodiscard]] cudaStream_t credits() const { return credits_; }
  [[nodiscard]] std::vector<cudaStream_t> all() const;
  /// `destination` is another rank.
  [[nodiscard]] cudaStream_t push(Lane lane, std::int32_t destination) const;

 private:
  Sharing sharing_;
  std::int32_t rank_;
  std::int32_t ranks_;
  Stream credits_;
  std::deque<Stream> push_;
};

}  // namespace commfuse

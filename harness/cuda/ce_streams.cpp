// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/ce_streams.h"

#include <fmt/format.h>

#include <array>

#include "harness/executor.h"

namespace commfuse {
namespace {

constexpr std::int32_t kStreamsOfExecutor = 2;  // compute, end of iterations
constexpr std::int32_t kCreditStreams = 1;

std::int32_t push_streams(Sharing sharing, std::int32_t ranks) {
  const auto lanes = static_cast<std::int32_t>(kLanes);
  switch (sharing) {
    case Sharing::destination:
      return lanes * (ranks - 1);
    case Sharing::lane:
      return lanes;
    case Sharing::rank:
      break;
  }
  return 1;
}

}  // namespace

std::int32_t streams_of_rank(Sharing sharing, std::int32_t ranks, std::int32_t executors) {
  return kStreamsOfExecutor * executors + kCreditStreams + push_streams(sharing, ranks);
}

Sharing finest_sharing(const Device& device, std::int32_t ranks, std::int32_t executors) {
  for (const Sharing sharing : {Sharing::destination, Sharing::lane, Sharing::rank}) {
    if (device.ranks_here * streams_of_rank(sharing, ranks, executors) <= device.connections)
      return sharing;
  }
  throw Unsupported(fmt::format(
      "transport ce needs {} streams on the device and CUDA_DEVICE_MAX_CONNECTIONS is {}: streams "
      "that share a queue could wait for each other for ever",
      device.ranks_here * streams_of_rank(Sharing::rank, ranks, executors), device.connections));
}

std::string name_of(Sharing sharing) {
  static constexpr std::array kNames{"one per lane and destination", "one per lane",
                                     "one per rank"};
  return kNames[static_cast<std::size_t>(sharing)];
}

CeStreams::CeStreams(Sharing sharing, std::int32_t rank, std::int32_t ranks, int priority)
    : sharing_(sharing), rank_(rank), ranks_(ranks), credits_(priority) {
  for (std::int32_t i = 0; i < push_streams(sharing, ranks); ++i) push_.emplace_back(priority);
}

std::vector<cudaStream_t> CeStreams::all() const {
  std::vector<cudaStream_t> streams{credits_};
  streams.insert(streams.end(), push_.begin(), push_.end());
  return streams;
}

cudaStream_t CeStreams::push(Lane lane, std::int32_t destination) const {
  const auto lane_index = static_cast<std::int32_t>(lane);
  std::int32_t index = 0;
  if (sharing_ == Sharing::lane) index = lane_index;
  if (sharing_ == Sharing::destination) {
    const std::int32_t other = destination < rank_ ? destination : destination - 1;
    index = lane_index * (ranks_ - 1) + other;
  }
  return push_[static_cast<std::size_t>(index)];
}

}  // namespace commfuse

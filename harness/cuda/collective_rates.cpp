// SPDX-License-Identifier: Apache-2.0
// Collectives of NCCL as nccl-tests measures them: out of place, fp32, iterations enqueued one
// after the other.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "harness/cuda/compute_stamps.h"
#include "harness/cuda/cuda_resources.h"
#include "harness/cuda/device_rates.h"
#include "harness/cuda/nccl_smoke.h"
#include "harness/cuda/rates.h"
#include "harness/cuda/timed_copy.h"
#include "harness/executor.h"
#include "harness/world/wire.h"

namespace commfuse {
namespace {

using State = SelfTestPart::State;

constexpr std::int32_t kWarmUps = 3;
constexpr std::size_t kPeriod = 251;  // of values, so that blocks and places are told apart

/// Whole numbers, whose sums over ranks are exact.
float value_at(std::int32_t rank, std::size_t index) {
  return static_cast<float>(static_cast<std::size_t>(rank) * 1000 + index % kPeriod);
}

/// One rank's buffers for collectives of an array of `elements` over all ranks.
class CollectiveRun {
 public:
  CollectiveRun(World& world, const NcclCommunicators& communicators, std::size_t block,
                std::int32_t repetitions)
      : world_(world),
        communicators_(communicators),
        block_(block),
        ranks_(static_cast<std::size_t>(world.ranks())),
        repetitions_(repetitions),
        own_(block * sizeof(float)),
        whole_(block * ranks_ * sizeof(float)) {}

  std::vector<std::int64_t> all_gather_times(std::string& wrong) {
    fill(own_, block_);
    poison(whole_);
    auto times = times_of([&] {
      CFB_CUDA(ncclAllGather(own_.data(), whole_.data(), block_, ncclFloat32,
                             communicators_.collectives(CollectiveVia::standard), stream_));
    });
    wrong = first_wrong(whole_, block_ * ranks_, [&](std::size_t i) {
      return value_at(static_cast<std::int32_t>(i / block_), i % block_);
    });
    return times;
  }

  std::vector<std::int64_t> reduce_scatter_times(std::string& wrong) {
    fill(whole_, block_ * ranks_);
    poison(own_);
    auto times = times_of([&] {
      CFB_CUDA(ncclReduceScatter(whole_.data(), own_.data(), block_, ncclFloat32, ncclSum,
                                 communicators_.collectives(CollectiveVia::standard), stream_));
    });
    const auto first = static_cast<std::size_t>(world_.rank()) * block_;
    wrong = first_wrong(own_, block_, [&](std::size_t i) {
      float sum = 0;
      for (std::int32_t r = 0; r < world_.ranks(); ++r) sum += value_at(r, first + i);
      return sum;
    });
    return times;
  }

 private:
  void fill(const DeviceMemory& memory, std::size_t elements) {
    std::vector<float> values(elements);
    for (std::size_t i = 0; i < elements; ++i) values[i] = value_at(world_.rank(), i);
    CFB_CUDA(cudaMemcpyAsync(memory.data(), values.data(), elements * sizeof(float),
                             cudaMemcpyHostToDevice, stream_));
    CFB_CUDA(cudaStreamSynchronize(stream_));
  }

  void poison(const DeviceMemory& memory) {
    CFB_CUDA(cudaMemsetAsync(memory.data(), 0xff, memory.bytes(), stream_));
    CFB_CUDA(cudaStreamSynchronize(stream_));
  }

  template <class Enqueue>
  std::vector<std::int64_t> times_of(Enqueue enqueue) {
    std::vector<CudaEvent> events;
    for (std::int32_t i = 0; i <= repetitions_; ++i) events.emplace_back(EventUse::timing);
    world_.barrier();
    for (std::int32_t i = 0; i < kWarmUps; ++i) enqueue();
    CFB_CUDA(cudaEventRecord(events.front(), stream_));
    for (std::size_t i = 1; i < events.size(); ++i) {
      enqueue();
      CFB_CUDA(cudaEventRecord(events[i], stream_));
    }
    wait_for(stream_, communicators_);
    std::vector<std::int64_t> times;
    for (std::size_t i = 1; i < events.size(); ++i) {
      times.push_back(elapsed_ns(events[i - 1], events[i]));
    }
    world_.barrier();
    return times;
  }

  template <class Right>
  std::string first_wrong(const DeviceMemory& memory, std::size_t elements, Right right) {
    std::vector<float> values(elements);
    CFB_CUDA(cudaMemcpyAsync(values.data(), memory.data(), elements * sizeof(float),
                             cudaMemcpyDeviceToHost, stream_));
    CFB_CUDA(cudaStreamSynchronize(stream_));
    for (std::size_t i = 0; i < elements; ++i) {
      if (values[i] == right(i)) continue;
      return fmt::format("on rank {} element {} is {}, must be {}", world_.rank(), i, values[i],
                         right(i));
    }
    return {};
  }

  World& world_;
  const NcclCommunicators& communicators_;
  std::size_t block_;
  std::size_t ranks_;
  std::int32_t repetitions_;
  Stream stream_{0};
  DeviceMemory own_;
  DeviceMemory whole_;
};

std::string part_name(std::string_view collective) { return fmt::format("{} of nccl", collective); }

std::vector<SelfTestPart> both_missing(const std::string& reason) {
  return {{part_name("all_gather"), reason, State::missing},
          {part_name("reduce_scatter"), reason, State::missing}};
}

SelfTestPart part_of(World& world, const char* collective, std::size_t array_bytes,
                     const std::vector<std::int64_t>& times, const std::string& own_wrong) {
  const std::string wrong = first_text(world, own_wrong);
  std::vector<std::vector<std::int64_t>> by_rank;
  for (const auto& bytes : world.gather(std::as_bytes(std::span(times)), 0)) {
    by_rank.push_back(values_of<std::int64_t>(bytes));
  }
  if (world.rank() != 0) return {};
  if (!wrong.empty()) return {part_name(collective), wrong, State::failed};
  const std::int64_t ns = std::max<std::int64_t>(median_of_slowest(by_rank), 1);
  const auto bytes = static_cast<std::int64_t>(array_bytes);
  return {part_name(collective),
          fmt::format("{}; {} over {} ranks, fp32, out of place, median of {} of the slowest rank",
                      collective_text(collective, bytes, ns, world.ranks()), mib_text(bytes),
                      world.ranks(), times.size())};
}

}  // namespace

std::vector<SelfTestPart> measure_collective_rates(World& world, const DevicePlaces& places,
                                                   const NcclSettings& nccl,
                                                   const RateLimits& limits) {
  if (world.ranks() == 1) return both_missing("one rank has nobody to gather from");
  if (places.shared()) return both_missing("NCCL takes one rank per device and ranks share one");
  const auto ranks = static_cast<std::size_t>(world.ranks());
  const auto bytes = static_cast<std::size_t>(
      -world.max(-static_cast<double>(affordable_bytes(limits.collective_bytes, 2))));
  const std::size_t block = bytes / ranks / 16 * 16 / sizeof(float);  // as nccl-tests cuts it
  if (block == 0) return both_missing("too little memory is free on a device");
  try {
    const NcclCommunicators communicators(world, nccl);
    CollectiveRun run(world, communicators, block, limits.collective_repetitions);
    const std::size_t array_bytes = block * ranks * sizeof(float);
    std::vector<SelfTestPart> parts;
    std::string wrong;
    const auto gathered = run.all_gather_times(wrong);
    parts.push_back(part_of(world, "all_gather", array_bytes, gathered, wrong));
    const auto scattered = run.reduce_scatter_times(wrong);
    parts.push_back(part_of(world, "reduce_scatter", array_bytes, scattered, wrong));
    return parts;
  } catch (const Unsupported& error) {  // on every rank alike
    return both_missing(error.what());
  }
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/nccl_smoke.h"

#include <fmt/format.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/cuda/cuda_resources.h"
#include "harness/cuda/nccl_memory.h"
#include "harness/cuda/nccl_registration.h"

namespace commfuse {
namespace {

constexpr std::size_t kElements = std::size_t{1} << 18;  // 1 MiB: more than one CTA's share

/// Values that are exact and differ from place to place and from lane to lane.
std::vector<float> block_of(std::size_t lane) {
  std::vector<float> values(kElements);
  for (std::size_t i = 0; i < kElements; ++i) values[i] = static_cast<float>(i + lane + 1);
  return values;
}

std::string exchange(const NcclCommunicators& communicators, std::size_t lane,
                     cudaStream_t stream) {
  constexpr std::size_t kBytes = kElements * sizeof(float);
  const std::vector<float> sent = block_of(lane);
  const DeviceMemory source(kBytes);
  const DeviceMemory target(kBytes);
  CFB_CUDA(cudaMemcpyAsync(source.data(), sent.data(), kBytes, cudaMemcpyHostToDevice, stream));
  CFB_CUDA(cudaMemsetAsync(target.data(), 0xff, kBytes, stream));
  const ncclComm_t communicator = communicators.exchanges(static_cast<Lane>(lane));
  CFB_CUDA(ncclGroupStart());
  CFB_CUDA(ncclSend(source.data(), kElements, ncclFloat32, 0, communicator, stream));
  CFB_CUDA(ncclRecv(target.data(), kElements, ncclFloat32, 0, communicator, stream));
  CFB_CUDA(ncclGroupEnd());
  wait_for(stream, communicators);
  std::vector<float> received(kElements);
  CFB_CUDA(cudaMemcpyAsync(received.data(), target.data(), kBytes, cudaMemcpyDeviceToHost, stream));
  CFB_CUDA(cudaStreamSynchronize(stream));
  return first_difference(sent, received);
}

}  // namespace

void wait_for(cudaStream_t stream, const NcclCommunicators& communicators) {
  for (;;) {
    const cudaError_t state = cudaStreamQuery(stream);
    if (state == cudaSuccess) return;
    if (state != cudaErrorNotReady) CFB_CUDA(state);
    cudaGetLastError();  // the next call would find "not ready" and take it for its own
    communicators.check();
  }
}

std::string exchange_with_itself(World& alone, const NcclSettings& settings) {
  const NcclCommunicators communicators(alone, settings);
  const Stream stream(0);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const std::string difference = exchange(communicators, lane, stream);
    if (difference.empty()) continue;
    return fmt::format("on lane {}: {}", name_of(static_cast<Lane>(lane)), difference);
  }
  return {};
}

std::string gather_registered(World& alone, const NcclSettings& settings, CollectiveVia via) {
  constexpr std::size_t kBytes = kElements * sizeof(float);
  const std::vector<float> sent = block_of(static_cast<std::size_t>(via));
  const Stream stream(0);
  const NcclMemory memory(2 * kBytes);
  NcclCommunicators communicators(alone, settings);
  communicators.prepare(via);
  const MemoryRange range{memory.data(), 2 * kBytes};
  const NcclRegistration registration(alone, communicators.collectives(via), via,
                                      std::span(&range, 1));
  std::byte* const target = memory.data() + kBytes;
  CFB_CUDA(cudaMemcpyAsync(memory.data(), sent.data(), kBytes, cudaMemcpyHostToDevice, stream));
  CFB_CUDA(cudaMemsetAsync(target, 0xff, kBytes, stream));
  CFB_CUDA(ncclAllGather(memory.data(), target, kElements, ncclFloat32,
                         communicators.collectives(via), stream));
  wait_for(stream, communicators);
  std::vector<float> received(kElements);
  CFB_CUDA(cudaMemcpyAsync(received.data(), target, kBytes, cudaMemcpyDeviceToHost, stream));
  CFB_CUDA(cudaStreamSynchronize(stream));
  return first_difference(sent, received);
}

std::string first_difference(std::span<const float> sent, std::span<const float> received) {
  if (sent.size() != received.size()) {
    return fmt::format("{} elements arrived, sent were {}", received.size(), sent.size());
  }
  for (std::size_t i = 0; i < sent.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(sent[i]) == std::bit_cast<std::uint32_t>(received[i])) {
      continue;
    }
    return fmt::format("element {} is {}, sent was {}", i, received[i], sent[i]);
  }
  return {};
}

}  // namespace commfuse

// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/warm_up.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "harness/cuda/cuda_resources.h"
#include "harness/cuda/launches.h"
#include "harness/cuda/slab.h"

namespace commfuse {
namespace {

constexpr std::size_t kMostOperands = 5;  // four that are read and one that is written

/// Every tensor of the op in a block of its own, the others anywhere.
DeviceStorage spread(const Compute& op, const std::vector<Tensor>& tensors, std::byte* blocks,
                     std::size_t block_bytes) {
  std::vector<std::byte*> places(tensors.size(), blocks);
  std::vector<TensorId> seen;
  std::vector<View> operands = reads(op);
  operands.push_back(writes(op));
  for (const View& view : operands) {
    if (std::ranges::find(seen, view.tensor) != seen.end()) continue;
    places[view.tensor] = blocks + seen.size() * block_bytes;
    seen.push_back(view.tensor);
  }
  return {tensors, std::move(places)};
}

}  // namespace

void warm_up(const Program& program, CudaKernels& kernels, cudaStream_t stream) {
  const std::vector<Tensor>& tensors = program.plan().tensors;
  std::size_t largest = 1;
  for (const Tensor& tensor : tensors) {
    largest = std::max(largest, static_cast<std::size_t>(tensor.bytes()));
  }
  const std::size_t block_bytes = aligned_up(largest, kTensorAlignment);
  const DeviceMemory zeros(kMostOperands * block_bytes);
  CFB_CUDA(cudaMemsetAsync(zeros.data(), 0, zeros.bytes(), stream));
  for (const EventId id : program.compute_lane()) {
    const auto op = program.compute(id);
    if (!op) continue;
    const DeviceStorage storage = spread(*op, tensors, zeros.data(), block_bytes);
    kernels.prepare(*op, storage);
    kernels.run(*op, storage);
  }
  launch_sentinel(stream);
  CFB_CUDA(cudaStreamSynchronize(stream));
}

}  // namespace commfuse

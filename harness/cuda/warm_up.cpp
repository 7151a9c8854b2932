// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/warm_up.h"

#include <algorithm>
#include <vector>

#include "harness/cuda/cuda_resources.h"
#include "harness/cuda/launches.h"

namespace commfuse {
namespace {

/// The tensors that an op touches, each once. They must lie apart: a product whose addend lies in
/// its result takes another algorithm than the op will.
std::vector<TensorId> tensors_of(const Compute& op) {
  std::vector<TensorId> ids;
  const auto add = [&](const std::vector<View>& views) {
    for (const View& view : views) {
      if (std::ranges::find(ids, view.tensor) == ids.end()) ids.push_back(view.tensor);
    }
  };
  add(writes(op));
  add(reads(op));
  return ids;
}

/// Blocks of zeros, so many and so large that the tensors of any op find one each.
std::vector<DeviceMemory> blocks_for(const Program& program, cudaStream_t stream) {
  std::vector<std::size_t> sizes;
  for (const EventId id : program.compute_lane()) {
    const auto op = program.compute(id);
    if (!op) continue;
    const std::vector<TensorId> tensors = tensors_of(*op);
    sizes.resize(std::max(sizes.size(), tensors.size()));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Tensor& tensor = program.plan().tensors[tensors[i]];
      sizes[i] = std::max(sizes[i], static_cast<std::size_t>(tensor.bytes()));
    }
  }
  std::vector<DeviceMemory> blocks;
  for (const std::size_t bytes : sizes) {
    blocks.emplace_back(bytes);
    if (bytes > 0) CFB_CUDA(cudaMemsetAsync(blocks.back().data(), 0, bytes, stream));
  }
  return blocks;
}

DeviceStorage place(const Compute& op, const std::vector<Tensor>& tensors,
                    const std::vector<DeviceMemory>& blocks) {
  std::vector<std::byte*> addresses(tensors.size());
  std::size_t next = 0;
  for (const TensorId id : tensors_of(op)) addresses[id] = blocks[next++].data();
  return {tensors, addresses};
}

}  // namespace

void warm_up(const Program& program, CudaKernels& kernels, cudaStream_t stream) {
  const std::vector<DeviceMemory> blocks = blocks_for(program, stream);
  for (const EventId id : program.compute_lane()) {
    const auto op = program.compute(id);
    if (!op) continue;
    const DeviceStorage storage = place(*op, program.plan().tensors, blocks);
    kernels.prepare(*op, storage);
    kernels.run(*op, storage);
  }
  launch_sentinel(stream);
  CFB_CUDA(cudaStreamSynchronize(stream));
}

}  // namespace commfuse

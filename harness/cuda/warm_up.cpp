// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/warm_up.h"

#include <algorithm>
#include <vector>

#include "harness/cuda/handles.h"
#include "harness/cuda/launches.h"

namespace commfuse {

void warm_up(const Program& program, CudaKernels& kernels, cudaStream_t stream) {
  const std::vector<Tensor>& tensors = program.plan().tensors;
  std::int64_t largest = 1;
  for (const Tensor& tensor : tensors) largest = std::max(largest, tensor.bytes());
  const DeviceMemory zeros(static_cast<std::size_t>(largest));
  CFB_CUDA(cudaMemsetAsync(zeros.data(), 0, static_cast<std::size_t>(largest), stream));
  const DeviceStorage storage(tensors, std::vector<std::byte*>(tensors.size(), zeros.data()));
  for (const EventId id : program.compute_lane()) {
    if (const auto op = program.compute(id)) {
      kernels.prepare(*op, storage);
      kernels.run(*op, storage);
    }
  }
  launch_sentinel(stream);
  CFB_CUDA(cudaStreamSynchronize(stream));
}

}  // namespace commfuse

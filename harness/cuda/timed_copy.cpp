// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/timed_copy.h"

#include <algorithm>
#include <vector>

#include "harness/cuda/compute_stamps.h"
#include "harness/cuda/cuda_resources.h"
#include "harness/record/statistics.h"

namespace commfuse {

std::int64_t median_copy_ns(std::byte* to, const std::byte* from, std::size_t bytes,
                            std::int32_t repetitions, cudaStream_t stream) {
  const CudaEvent begin(EventUse::timing);
  const CudaEvent end(EventUse::timing);
  std::vector<double> times;
  for (std::int32_t i = -1; i < repetitions; ++i) {
    CFB_CUDA(cudaEventRecord(begin, stream));
    CFB_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
    CFB_CUDA(cudaEventRecord(end, stream));
    CFB_CUDA(cudaStreamSynchronize(stream));
    if (i >= 0) times.push_back(static_cast<double>(elapsed_ns(begin, end)));
  }
  return std::max<std::int64_t>(static_cast<std::int64_t>(median(times)), 1);
}

std::size_t affordable_bytes(std::size_t most, std::size_t shares) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  std::size_t free = 0;
  std::size_t total = 0;
  CFB_CUDA(cudaMemGetInfo(&free, &total));
  const std::size_t share = free / 4 / shares;
  return share >= most ? most : share / kMiB * kMiB;
}

}  // namespace commfuse

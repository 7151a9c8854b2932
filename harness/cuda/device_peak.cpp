// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/device_peak.h"

#include <algorithm>
#include <vector>

#include "harness/cuda/compute_stamps.h"
#include "harness/cuda/cuda_resources.h"

namespace commfuse {

double measure_cuda_gemm_peak(const GemmSettings& settings, std::int32_t size) {
  const Tensor square{"square", size, size, DType::bf16};
  const auto bytes = static_cast<std::size_t>(square.bytes());
  const Stream stream(0);
  const DeviceMemory memory(3 * bytes);
  CFB_CUDA(cudaMemsetAsync(memory.data(), 0x3c, 3 * bytes, stream));  // 0.011 everywhere
  const DeviceStorage storage({square, square, square},
                              {memory.data(), memory.data() + bytes, memory.data() + 2 * bytes});
  const Gemm gemm{whole(0, square), whole(1, square), whole(2, square), {}};
  CudaKernels kernels(settings, stream);
  kernels.prepare(gemm, storage);
  kernels.run(gemm, storage);
  const CudaEvent begin(EventUse::timing);
  const CudaEvent end(EventUse::timing);
  std::int64_t best_ns = 0;
  for (int i = 0; i < kPeakTries; ++i) {
    CFB_CUDA(cudaEventRecord(begin, stream));
    kernels.run(gemm, storage);
    CFB_CUDA(cudaEventRecord(end, stream));
    CFB_CUDA(cudaStreamSynchronize(stream));
    const std::int64_t ns = std::max<std::int64_t>(elapsed_ns(begin, end), 1);
    best_ns = best_ns == 0 ? ns : std::min(best_ns, ns);
  }
  return static_cast<double>(flops(gemm)) / static_cast<double>(best_ns) * 1e9;
}

}  // namespace commfuse

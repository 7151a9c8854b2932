// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/ce_counters.h"

#include "harness/cuda/cuda_error.h"

namespace commfuse {

void CounterOps::write(cudaStream_t stream, std::byte* counter, Epoch epoch) const {
  CFB_CUDA(functions_.write(stream, reinterpret_cast<CUdeviceptr>(counter), counter_value(epoch),
                            CU_STREAM_WRITE_VALUE_DEFAULT));
}

void CounterOps::wait(cudaStream_t stream, const std::byte* counter, Epoch epoch) const {
  unsigned flags = CU_STREAM_WAIT_VALUE_GEQ;
  if (flush_) flags |= CU_STREAM_WAIT_VALUE_FLUSH;
  CFB_CUDA(
      functions_.wait(stream, reinterpret_cast<CUdeviceptr>(counter), counter_value(epoch), flags));
}

}  // namespace commfuse
